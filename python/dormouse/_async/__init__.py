"""The asynchronous half, and the source of the other: `tools/make_sync.py` writes `_sync` from here, but for `io.py`."""
