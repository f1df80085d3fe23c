"""Text of bounded size that keeps its beginning and its end."""

from __future__ import annotations

OUTPUT_MAX_BYTES = 4 * 1024**2


class BoundedText:
    """Collects text and keeps at most `max_bytes` of its UTF-8: the beginning, which shows what the text is, and the
    end, which shows how it turned out. Never cuts a character in half. `text()` says how many bytes are missing.

    `packages/contracts/src/bounded-text.ts` does the same. Both pass `bounded-text.cases.json`, beside it. The SDK and
    the guest have identical copies of this file.
    """

    def __init__(self, max_bytes: int = OUTPUT_MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._head = bytearray()
        # The head is complete: all later text goes to the tail.
        self._is_head_full = False
        self._tail = bytearray()
        self._lost_bytes = 0

    def add(self, text: str) -> None:
        data = _encode(text)
        if not self._is_head_full:
            room = self._max_bytes // 2 - len(self._head)
            if len(data) <= room:
                self._head += data
                return
            cut = _character_start(data, room, -1)
            self._head += data[:cut]
            self._is_head_full = True
            data = data[cut:]
        self._tail += data
        # Trimming moves the whole tail, so it waits until there is as much to drop as to keep.
        if len(self._tail) > 2 * self._max_bytes:
            self._trim_tail()

    def lose(self, count: int) -> None:
        """`count` bytes of the source are missing here. Earlier text is the beginning, later text the end."""
        self._lost_bytes += count
        self._is_head_full = True

    @property
    def lost_bytes(self) -> int:
        self._trim_tail()
        return self._lost_bytes

    def text(self) -> str:
        self._trim_tail()
        head, tail = _decode(self._head), _decode(self._tail)
        return head + tail if self._lost_bytes == 0 else f"{head}\n… {self._lost_bytes} bytes left out …\n{tail}"

    def _trim_tail(self) -> None:
        excess = len(self._head) + len(self._tail) - self._max_bytes
        if excess > 0:
            cut = _character_start(self._tail, excess, +1)
            self._lost_bytes += cut
            del self._tail[:cut]


def bound_text(text: str, max_bytes: int) -> str:
    """`text` itself when it has at most `max_bytes` of UTF-8, otherwise its beginning and its end."""
    bounded = BoundedText(max_bytes)
    bounded.add(text)
    return bounded.text()


def _character_start(data: bytes | bytearray, position: int, step: int) -> int:
    """The nearest position at or beyond `position`, in direction `step`, where a character of UTF-8 begins."""
    while position < len(data) and data[position] & 0xC0 == 0x80:
        position += step
    return position


def _encode(text: str) -> bytes:
    # A lone surrogate takes three bytes, as the character that replaces it would.
    return text.encode("utf-8", "surrogatepass")


def _decode(data: bytearray) -> str:
    return data.decode("utf-8", "surrogatepass")
