"""Ids of started processes."""

import os

# As in the host's ids: no 0/o and 1/l. 32 characters, so five bits of a random byte pick one without bias.
ALPHABET = "23456789abcdefghijkmnpqrstuvwxyz"
RANDOM_CHARACTERS = 16


def new_process_id() -> str:
    """An id that is never used again: pids start again after a sleep, and forks would agree on a counter."""
    return "pr-" + "".join(ALPHABET[byte & 31] for byte in os.urandom(RANDOM_CHARACTERS))
