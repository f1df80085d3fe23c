"""The agent: root of a sandbox's process tree, and the host's only way into it. See ../../PROTOCOL.md."""

VERSION = "0.1.0"
