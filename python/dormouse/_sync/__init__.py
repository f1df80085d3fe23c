"""The synchronous half: written by `tools/make_sync.py` from `_async`, but for `io.py`."""
