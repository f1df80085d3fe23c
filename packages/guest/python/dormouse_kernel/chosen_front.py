"""Chooses the front while modules are imported, before the working directory of user code is on the path."""

from __future__ import annotations

from dormouse_kernel.front import Front
from dormouse_kernel.ipython_import import import_ipython

WHY_PLAIN = import_ipython()
ChosenFront: type[Front]
if WHY_PLAIN is None:
    from dormouse_kernel.ipython_front import IPythonFront

    ChosenFront = IPythonFront
else:
    from dormouse_kernel.plain_front import PlainFront

    ChosenFront = PlainFront
