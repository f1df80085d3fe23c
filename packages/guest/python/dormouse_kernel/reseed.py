"""What belongs to the whole process and must not be the same in restored copies of it."""

import os
import random
import sys
from collections.abc import Callable
from typing import Any

# Any number of wakes may come in one run.
ERRORS = 8


class Reseeder:
    def __init__(self) -> None:
        self._left: list[str] = []
        self.errors: list[BaseException] = []

    def reseed(self, generators: bool) -> None:
        """Without `generators`, programs go on with the numbers they would have drawn."""
        wanted = [*(GENERATORS if generators else ()), *SECRETS]
        self._left += self._try([name for name in wanted if name not in self._left])

    def finish(self) -> None:
        """Those that were in use, or being imported, by the very code that a signal had interrupted."""
        self._left = self._try(self._left)

    def _try(self, names: list[str]) -> list[str]:
        left = []
        for name in names:
            # Nothing is imported here: what is not there yet will seed itself.
            module = sys.modules.get(name)
            try:
                if module is not None and (_is_importing(module) or not ALL[name](module)):
                    left.append(name)
            except RecursionError:
                # Of the interrupted code; there is another chance behind it.
                raise
            except Exception as error:  # noqa: BLE001 - user code may have replaced anything in a module
                self.errors = [*self.errors, error][-ERRORS:]
        return left


def _is_importing(module: Any) -> bool:
    return bool(getattr(module.__spec__, "_initializing", False))


def _random(module: Any) -> bool:
    random.seed()
    return True


def _numpy(module: Any) -> bool:
    lock = module._rand._bit_generator.lock
    # Not reentrant, and held by np.random.shuffle() while it calls methods of what it shuffles.
    if not lock.acquire(timeout=0.01):
        return False
    lock.release()
    module.seed()
    return True


def _torch(module: Any) -> bool:
    module.default_generator.seed()
    return True


def _uuid(module: Any) -> bool:
    """uuid1(): what libuuid remembers cannot be reset, so Python's own way is taken from here on."""
    module._generate_time_safe = None
    module._last_timestamp = None
    # The multicast bit says that it is nobody's hardware address.
    module._node = int.from_bytes(os.urandom(6)) | 1 << 40
    return True


def _openssl(module: Any) -> bool:
    """OpenSSL notices a fork(), but not a copy with the same pid; fresh input reseeds all its generators."""
    module.RAND_add(os.urandom(64), 64.0)
    return True


def _platform(module: Any) -> bool:
    """It remembers the host name."""
    module._uname_cache = None
    return True


# Each says whether it is done.
Reset = Callable[[Any], bool]
# A program may have seeded these, and want its numbers.
GENERATORS: dict[str, Reset] = {"random": _random, "numpy.random.mtrand": _numpy, "torch": _torch}
# Two copies that agree on these would make the same keys, or be taken for each other.
SECRETS: dict[str, Reset] = {"uuid": _uuid, "_ssl": _openssl, "platform": _platform}
ALL = GENERATORS | SECRETS
