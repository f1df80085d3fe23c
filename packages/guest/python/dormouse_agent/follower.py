"""Sends the events of a journal over a channel, from a position on, as fast as the host reads them."""

from typing import Any

from dormouse_agent.channel import Channel
from dormouse_agent.journal import Journal


class Follower:
    __slots__ = ("_channel", "_follow", "_journal", "_next_seq", "_pumping", "_seen_bytes")

    def __init__(self, journal: Journal, channel: Channel, after: int, follow: bool) -> None:
        self._journal = journal
        self._channel = channel
        # A position beyond the end means: only later events.
        self._next_seq = min(after + 1, journal.next_seq)
        # Bytes of all events before the next one, so that dropped bytes can be counted exactly.
        self._seen_bytes = journal.bytes_before(self._next_seq)
        self._follow = follow
        self._pumping = False

    def start(self) -> None:
        self._channel.pump_with(self.pump)
        self._journal.watchers.append(self.pump)
        self._channel.on_close = self._detach
        self.pump()

    def pump(self) -> None:
        # Closing the channel detaches this follower, and another follower's wake may call this method again.
        if self._pumping or not self._channel.open:
            return
        if self._follow and self._journal.held:
            return
        self._pumping = True
        try:
            self._send_while_possible()
        finally:
            self._pumping = False

    def _send_while_possible(self) -> None:
        journal, channel = self._journal, self._channel
        while True:
            if self._next_seq == journal.next_seq:
                if journal.closed or not self._follow:
                    channel.end({})
                return
            if not channel.can_send():
                return
            if self._next_seq < journal.first_seq:
                channel.item(journal.truncated(self._next_seq - 1, self._seen_bytes))
                self._next_seq = journal.first_seq
                self._seen_bytes = journal.dropped_bytes
            else:
                event = journal.at(self._next_seq)
                self._next_seq += 1
                self._seen_bytes += len(event)
                channel.item(event)

    def _detach(self) -> None:
        watchers: list[Any] = self._journal.watchers
        if self.pump in watchers:
            watchers.remove(self.pump)


def follow(journal: Journal, channel: Channel, after: int = -1, stay: bool = True) -> None:
    Follower(journal, channel, after, stay).start()
