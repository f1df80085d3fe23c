"""The kernel: the Python of one context. See ../../PROTOCOL.md, "Inside: agent and kernel"."""
