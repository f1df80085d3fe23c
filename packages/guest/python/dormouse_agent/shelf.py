"""Finished runs and processes whose journals can still be read, within a count and a size."""

from collections import OrderedDict
from typing import Generic, Protocol, TypeVar

from dormouse_agent.journal import Journal
from dormouse_agent.limits import FINISHED_JOURNALS_BYTES


class Finished(Protocol):
    journal: Journal


Key = TypeVar("Key")
Item = TypeVar("Item", bound=Finished)


class ShelfBudget:
    """One size for all shelves together; the oldest journal of any shelf makes room first."""

    def __init__(self) -> None:
        self.bytes = 0
        self._order: OrderedDict[tuple[int, object], Shelf] = OrderedDict()

    def add(self, shelf: "Shelf", key: object, size: int) -> None:
        self._order[(id(shelf), key)] = shelf
        self.bytes += size
        while self.bytes > FINISHED_JOURNALS_BYTES and len(self._order) > 1:
            (_, oldest), owner = next(iter(self._order.items()))
            owner.drop(oldest)

    def remove(self, shelf: "Shelf", key: object, size: int) -> None:
        del self._order[(id(shelf), key)]
        self.bytes -= size


class Shelf(Generic[Key, Item]):
    def __init__(self, budget: ShelfBudget, count: int) -> None:
        self._budget = budget
        self._count = count
        self._items: OrderedDict[Key, Item] = OrderedDict()

    def add(self, key: Key, item: Item) -> None:
        self.drop(key)
        self._items[key] = item
        self._budget.add(self, key, item.journal.size_bytes)
        while len(self._items) > self._count:
            self.drop(next(iter(self._items)))

    def drop(self, key: Key) -> None:
        item = self._items.pop(key, None)
        if item is not None:
            self._budget.remove(self, key, item.journal.size_bytes)

    def find(self, key: Key) -> Item | None:
        return self._items.get(key)

    def all(self) -> list[Item]:
        return list(self._items.values())
