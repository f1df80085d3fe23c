"""Volumes, as the server describes them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Optional, Sequence


@dataclass(frozen=True)
class VolumeShare:
    key_id: str
    name: str
    access: str


@dataclass(frozen=True)
class Volume:
    name: str
    created_at: datetime
    # As last measured; `get` measures a volume.
    bytes: Optional[int] = None
    files: Optional[int] = None
    # How much it may hold.
    size_bytes: int = 0
    # `hard`: the file system of the server refuses more. `measured`: the server measures, and acts seconds later.
    size_limit: str = "measured"
    # Ids of sandboxes that mount it.
    used_by: Sequence[str] = ()
    # `own`, or what another key lets this one do: `read` or `write`.
    access: str = "own"
    # Nothing can write to it: it is a snapshot of another volume.
    read_only: bool = False
    cloned_from: Optional[str] = None
    # After `clone`: whether nothing changed in the volume while it was copied.
    one_moment: Optional[bool] = None
    # Keys that may use it too.
    shared_with: Sequence[VolumeShare] = ()
