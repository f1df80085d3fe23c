"""Finished runs and processes whose journals can still be read, bounded in number and in bytes."""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from dormouse_agent.journal import Journal
from dormouse_agent.limits import FINISHED_JOURNALS_BYTES


class Finished(Protocol):
    journal: Journal


Key = TypeVar("Key")
Item = TypeVar("Item", bound=Finished)


class JournalBudget:
    """Bounds the bytes of all journals in several FinishedItems. Drops the oldest item of any of them first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._order: OrderedDict[tuple[int, object], FinishedItems] = OrderedDict()

    def add(self, items: "FinishedItems", key: object, size: int) -> None:
        self._order[(id(items), key)] = items
        self.bytes += size
        while self.bytes > FINISHED_JOURNALS_BYTES and len(self._order) > 1:
            (_, oldest), owner = next(iter(self._order.items()))
            owner.drop(oldest)

    def remove(self, items: "FinishedItems", key: object, size: int) -> None:
        del self._order[(id(items), key)]
        self.bytes -= size


class FinishedItems(Generic[Key, Item]):
    def __init__(self, budget: JournalBudget, max_count: int) -> None:
        self._budget = budget
        self._max_count = max_count
        self._items: OrderedDict[Key, Item] = OrderedDict()

    def add(self, key: Key, item: Item) -> None:
        self.drop(key)
        self._items[key] = item
        self._budget.add(self, key, item.journal.size_bytes)
        while len(self._items) > self._max_count:
            self.drop(next(iter(self._items)))

    def drop(self, key: Key) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._budget.remove(self, key, item.journal.size_bytes)

    def find(self, key: Key) -> Item | None:
        return self._items.get(key)

    def all(self) -> list[Item]:
        return list(self._items.values())
