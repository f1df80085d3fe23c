"""Adds data to results for clients that compute with them: charts of figures, columns of data frames.

Off unless the environment has DORMOUSE_RESULT_DATA=1, because most readers want a picture or text only.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from typing import Any, Optional

CHART = "application/vnd.dormouse.chart+json"
DATA = "application/vnd.dormouse.data+json"
# Larger frames are shown, but not sent whole.
CELLS_MAX = 100_000


def _is_wanted() -> bool:
    return os.environ.get("DORMOUSE_RESULT_DATA") == "1"


def _chart(figure: Any) -> dict[str, Any] | None:
    if not _is_wanted():
        return None
    from dormouse_kernel.chart_data import describe_figure

    try:
        return describe_figure(figure)
    except Exception:  # noqa: BLE001
        # The figure is shown all the same: its data are an addition.
        return None


def _columns(frame: Any) -> dict[str, Any] | None:
    if not _is_wanted() or frame.size > CELLS_MAX:
        return None
    return {str(name): [_plain(value) for value in frame[name].tolist()] for name in frame.columns.unique()}


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


# What each kind of data is made of: the type's module and name, and the function.
RESULT_DATA: dict[str, tuple[tuple[str, str, Callable[[Any], Optional[dict[str, Any]]]], ...]] = {
    CHART: (("matplotlib.figure", "Figure", _chart),),
    DATA: (("pandas.core.frame", "DataFrame", _columns), ("pandas", "DataFrame", _columns)),
}
