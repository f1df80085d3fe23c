"""Decodes the bytes of one output stream and appends them to a journal as text events."""

import codecs

from dormouse_agent.journal import Journal

_new_decoder = codecs.getincrementaldecoder("utf-8")


class TextEvents:
    __slots__ = ("_decode", "_journal", "_kind", "_marks")

    def __init__(self, journal: Journal, kind: str, between_runs: bool = False) -> None:
        self._journal = journal
        self._kind = kind
        self._marks: dict[str, bool] = {"between": True} if between_runs else {}
        self._decode = _new_decoder("replace").decode

    def write(self, data: bytes) -> None:
        if (text := self._decode(data)) and not self._journal.closed:
            self._journal.append(self._kind, data=text, **self._marks)

    def end(self) -> None:
        """Appends U+FFFD for an incomplete character at the end of the stream."""
        if (text := self._decode(b"", True)) and not self._journal.closed:
            self._journal.append(self._kind, data=text, **self._marks)
