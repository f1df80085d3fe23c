"""New seeds for the generators that belong to the whole process: restored copies of it must not agree."""

import os
import random
import sys
from collections.abc import Callable
from typing import Any


class Reseeder:
    def __init__(self) -> None:
        self._left: list[str] = []
        self.errors: list[BaseException] = []

    def reseed(self) -> None:
        self._left = list(GENERATORS)
        self.finish()

    def finish(self) -> None:
        """Those that were in use by the very code that a signal had interrupted."""
        for name in self._left[:]:
            # Nothing is imported here: what is not there yet will seed itself. A module may be half imported.
            module = sys.modules.get(name)
            try:
                done = module is None or GENERATORS[name](module)
            except RecursionError:
                # Of the interrupted code; there is another chance behind it.
                raise
            except Exception as error:  # noqa: BLE001 - user code may have replaced anything in a module
                self.errors.append(error)
                done = True
            if done:
                self._left.remove(name)


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
    module._node = random.getrandbits(48) | 1 << 40
    return True


def _openssl(module: Any) -> bool:
    """OpenSSL notices a fork(), but not a copy with the same pid; fresh input reseeds all its generators."""
    module.RAND_add(os.urandom(64), 64.0)
    return True


def _platform(module: Any) -> bool:
    """Not a generator, but as personal: it remembers the host name."""
    module._uname_cache = None
    return True


# `random` first: others draw from it.
GENERATORS: dict[str, Callable[[Any], bool]] = {
    "random": _random,
    "numpy.random.mtrand": _numpy,
    "torch": _torch,
    "uuid": _uuid,
    "_ssl": _openssl,
    "platform": _platform,
}
