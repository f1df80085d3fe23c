"""Beside `version` in pyproject.toml, which a test compares."""

VERSION = "0.1.0"
