"""Looks at variables without running user code: only types that are known exactly are read."""
