"""The synchronous half, which `tools/make_sync.py` writes from `_async`, except `io.py`."""
