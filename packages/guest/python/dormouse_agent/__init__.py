"""The agent: root of a sandbox's process tree and the host's only way in. See ../../PROTOCOL.md."""

VERSION = "0.1.0"
