"""The languages of contexts, one file each. `registry` lists them (PROTOCOL.md, Languages)."""
