"""The kernel: the Python of one context. See ../../PROTOCOL.md, "Agent and kernel"."""
