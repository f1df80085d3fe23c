"""The asynchronous half. `tools/make_sync.py` writes `_sync` from it, except `io.py`."""
