"""Resets process-wide state that must differ between restored copies of a process."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable
from typing import Any

# One run may see any number of wakes.
ERRORS_KEPT = 8


class Reseeder:
    def __init__(self) -> None:
        self._left: list[str] = []
        self.errors: list[BaseException] = []

    def reseed(self, generators: bool) -> None:
        """Without `generators`, programs continue their sequences of random numbers."""
        wanted = [*(GENERATORS if generators else ()), *SECRETS]
        self._left += self._try([name for name in wanted if name not in self._left])

    def finish(self) -> None:
        """Retries the modules that the interrupted code was using or importing."""
        self._left = self._try(self._left)

    def _try(self, names: list[str]) -> list[str]:
        left = []
        for name in names:
            # Only imported modules: a module that is imported later seeds itself.
            module = sys.modules.get(name)
            try:
                if module is not None and (_is_importing(module) or not ALL[name](module)):
                    left.append(name)
            except RecursionError:
                # The interrupted code is at the recursion limit; `finish` tries again after it.
                raise
            except Exception as error:  # noqa: BLE001 - user code may have replaced any part of a module
                self.errors = [*self.errors, error][-ERRORS_KEPT:]
        return left


def _is_importing(module: Any) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _random(module: Any) -> bool:
    random.seed()
    return True


def _numpy(module: Any) -> bool:
    lock = module._rand._bit_generator.lock
    # Not reentrant. np.random.shuffle() holds it while it calls methods of the shuffled object.
    if not lock.acquire(timeout=0.01):
        return False
    lock.release()
    module.seed()
    return True


def _torch(module: Any) -> bool:
    module.default_generator.seed()
    return True


def _uuid(module: Any) -> bool:
    """uuid1(): the state of libuuid cannot be reset, so from here on Python computes the id itself."""
    module._generate_time_safe = None
    module._last_timestamp = None
    # The multicast bit marks an address that no hardware has.
    module._node = int.from_bytes(os.urandom(6), "big") | 1 << 40
    return True


def _openssl(module: Any) -> bool:
    """OpenSSL notices a fork(), but not a copy with the same pid. New entropy reseeds all its generators."""
    module.RAND_add(os.urandom(64), 64.0)
    return True


def _platform(module: Any) -> bool:
    """The module caches the host name."""
    module._uname_cache = None
    return True


# Returns whether the reset is complete.
Reset = Callable[[Any], bool]
# A program may have seeded these and rely on the sequence.
GENERATORS: dict[str, Reset] = {"random": _random, "numpy.random.mtrand": _numpy, "torch": _torch}
# Copies that share these would make the same keys, or be mistaken for each other.
SECRETS: dict[str, Reset] = {"uuid": _uuid, "_ssl": _openssl, "platform": _platform}
ALL = GENERATORS | SECRETS
