"""Adds data to results for clients that compute with them: charts of figures, columns of data frames.

Off unless the environment has DORMOUSE_RESULT_DATA=1, because most readers want a picture or text only.
"""

import math
import os
from typing import Any

from IPython.core.formatters import BaseFormatter
from traitlets import ObjectName, Unicode

CHART = "application/vnd.dormouse.chart+json"
DATA = "application/vnd.dormouse.data+json"
# Larger frames are shown, but not sent whole.
CELLS_MAX = 100_000


class DataFormatter(BaseFormatter):
    print_method = ObjectName("_repr_dormouse_data_")
    _return_type = (dict,)


class ChartFormatter(DataFormatter):
    format_type = Unicode(CHART)


class FrameFormatter(DataFormatter):
    format_type = Unicode(DATA)


def add_result_data(shell: Any) -> None:
    formatters = shell.display_formatter.formatters
    formatters[CHART] = ChartFormatter(parent=shell.display_formatter)
    formatters[CHART].for_type_by_name("matplotlib.figure", "Figure", _chart)
    formatters[DATA] = FrameFormatter(parent=shell.display_formatter)
    formatters[DATA].for_type_by_name("pandas.core.frame", "DataFrame", _columns)
    formatters[DATA].for_type_by_name("pandas", "DataFrame", _columns)


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
