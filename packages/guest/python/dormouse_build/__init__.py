"""Copies files into a sandbox that builds a template, and out of one. Runs on the runtime's Python, as root."""
