"""Bytes of one output stream become text events of one journal."""

import codecs

from dormouse_agent.journal import Journal

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextLane:
    __slots__ = ("_decode", "_journal", "_kind", "_marks")

    def __init__(self, journal: Journal, kind: str, between: bool = False) -> None:
        self._journal = journal
        self._kind = kind
        self._marks: dict[str, bool] = {"between": True} if between else {}
        self._decode = _new_decoder("replace").decode

    def feed(self, data: bytes) -> None:
        if (text := self._decode(data)) and not self._journal.closed:
            self._journal.append(self._kind, data=text, **self._marks)

    def flush(self) -> None:
        """Ends the stream: bytes of a character that never became whole are shown as U+FFFD."""
        if (text := self._decode(b"", True)) and not self._journal.closed:
            self._journal.append(self._kind, data=text, **self._marks)
