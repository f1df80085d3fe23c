"""Describes a Matplotlib figure as data: what kind of chart each of its axes shows, its labels and its points."""

from __future__ import annotations

import math
import re
from typing import Any

UNIT = re.compile(r"\s\((.*?)\)|\[(.*?)\]")
# A chart with more points than this has no data: reading it would take longer than drawing it.
POINTS_MAX = 10_000
# Enough digits to tell values apart, few enough to drop the errors of drawing.
DIGITS = 9


def describe_figure(figure: Any) -> dict[str, Any] | None:
    """None: the figure shows nothing, or too much."""
    axes = [ax for ax in figure.get_axes()]
    if not any(ax.has_data() for ax in axes):
        return None
    charts = [_describe_axes(ax) for ax in axes]
    if sum(_size(chart) for chart in charts) > POINTS_MAX:
        return None
    if len(charts) == 1:
        return charts[0]
    return {"type": "superchart", "title": figure.get_suptitle() or None, "elements": charts}


def _size(chart: dict[str, Any]) -> int:
    return sum(len(element.get("points", ())) + 1 for element in chart["elements"])


def _describe_axes(ax: Any) -> dict[str, Any]:
    kind = _kind(ax)
    chart: dict[str, Any] = {"type": kind, "title": ax.get_title() or None}
    if kind in ("pie", "unknown"):
        return {**chart, "elements": _wedges(ax) if kind == "pie" else []}
    chart.update(_labels(ax))
    if kind in ("line", "scatter"):
        chart.update(_axis("x", ax.xaxis, ax.get_xscale()))
        chart.update(_axis("y", ax.yaxis, ax.get_yscale()))
        return {**chart, "elements": _lines(ax) if kind == "line" else _dots(ax)}
    is_sideways, elements = _bars(ax) if kind == "bar" else _boxes(ax)
    return {**(_turned(chart) if is_sideways else chart), "elements": elements}


def _kind(ax: Any) -> str:
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.patches import PathPatch, Rectangle, Wedge
    from matplotlib.text import Text

    artists = [child for child in ax.get_children() if child in _drawn(ax) and not isinstance(child, Text)]
    if all(isinstance(artist, Line2D) for artist in artists):
        return "line"
    if all(isinstance(artist, (PathPatch, Line2D)) for artist in artists):
        return "box_and_whisker"
    rest = [artist for artist in artists if not (isinstance(artist, Line2D) and _is_straight(artist))]
    for kind, expected in (("scatter", PathCollection), ("pie", Wedge), ("bar", Rectangle)):
        if all(isinstance(artist, expected) for artist in rest):
            return kind
    return "unknown"


def _drawn(ax: Any) -> list[Any]:
    """What the caller drew, without the frame, the axes and the title."""
    return [*ax.lines, *ax.patches, *ax.collections, *ax.images, *ax.tables, *ax.artists]


def _is_straight(line: Any) -> bool:
    xs, ys = line.get_xdata(), line.get_ydata()
    return len(xs) == 2 and len(ys) == 2 and bool(xs[0] == xs[1] or ys[0] == ys[1])


def _labels(ax: Any) -> dict[str, Any]:
    x, y = ax.get_xlabel() or None, ax.get_ylabel() or None
    return {"x_label": x, "y_label": y, "x_unit": _unit(x), "y_unit": _unit(y)}


def _unit(label: str | None) -> str | None:
    found = UNIT.search(label or "")
    return None if found is None else found.group(1) or found.group(2)


def _turned(chart: dict[str, Any]) -> dict[str, Any]:
    swapped = {"x_label": "y_label", "y_label": "x_label", "x_unit": "y_unit", "y_unit": "x_unit"}
    return {**chart, **{name: chart[other] for name, other in swapped.items()}}


def _axis(name: str, axis: Any, scale: str) -> dict[str, Any]:
    from matplotlib import dates

    labels = [label.get_text() for label in axis.get_ticklabels()]
    ticks = list(axis.get_ticklocs())
    is_date = _is_date(axis)
    shown: list[Any] = [dates.num2date(tick).isoformat() if is_date else _plain(tick) for tick in ticks]
    if is_date:
        scale = "datetime"
    elif scale == "linear" and _are_categories(ticks, labels):
        scale = "categorical"
    return {f"{name}_ticks": shown, f"{name}_tick_labels": labels, f"{name}_scale": scale}


def _is_date(axis: Any) -> bool:
    get = getattr(axis, "get_converter", None)
    converter = get() if get is not None else axis.converter
    return "Date" in type(converter).__name__


def _are_categories(ticks: list[Any], labels: list[str]) -> bool:
    return all(tick == number and str(number) != label for number, (tick, label) in enumerate(zip(ticks, labels)))


def _plain(value: Any) -> Any:
    """A number or text that JSON has."""
    if hasattr(value, "isoformat"):
        return value.isoformat()
    if type(value).__name__ == "datetime64":
        return str(value.astype("datetime64[s]"))
    if isinstance(value, str):
        return str(value)
    number = float(value)
    return number if math.isfinite(number) else None


def _rounded(value: Any) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def _points(pairs: Any) -> list[list[Any]]:
    return [[_plain(x), _plain(y)] for x, y in pairs]


def _named(label: Any, prefix: str, name: str) -> str:
    """Labels that Matplotlib made up are numbers to a reader."""
    text = str(label)
    return f"{name} {text[len(prefix) :]}" if text.startswith(prefix) else text


def _lines(ax: Any) -> list[dict[str, Any]]:
    return [
        {
            "label": _named(line.get_label(), "_child", "Line"),
            "points": _points(zip(line.get_xdata(), line.get_ydata())),
        }
        for line in ax.get_lines()
        if not _is_straight(line)
    ]


def _dots(ax: Any) -> list[dict[str, Any]]:
    return [{"label": str(dots.get_label()), "points": _points(dots.get_offsets())} for dots in ax.collections]


def _wedges(ax: Any) -> list[dict[str, Any]]:
    return [
        {
            "label": str(wedge.get_label()),
            "angle": abs(_rounded(float(wedge.theta2) - float(wedge.theta1))),
            "radius": float(wedge.r),
        }
        for wedge in ax.patches
    ]


def _bars(ax: Any) -> tuple[bool, list[dict[str, Any]]]:
    elements = []
    is_sideways = False
    for bars in ax.containers:
        group = _named(bars.get_label(), "_container", "Group")
        heights = [bar.get_height() for bar in bars]
        is_sideways = len(set(heights)) == 1 and len({bar.get_width() for bar in bars}) > 1
        ticks = ax.get_yticklabels() if is_sideways else ax.get_xticklabels()
        values = [bar.get_width() for bar in bars] if is_sideways else heights
        for tick, value in zip(ticks, values):
            elements.append({"label": tick.get_text(), "group": group, "value": float(value)})
    return is_sideways, elements


def _boxes(ax: Any) -> tuple[bool, list[dict[str, Any]]]:
    """Boxes stand along one axis, at the positions of its ticks, and extend along the other."""
    corners = [patch.get_path().vertices for patch in ax.patches]
    spans = [[(_rounded(min(box[:, axis])), _rounded(max(box[:, axis]))) for axis in (0, 1)] for box in corners]
    is_sideways = len({_rounded(span[1][1] - span[1][0]) for span in spans}) == 1 and len(spans) > 1
    along, across = (1, 0) if is_sideways else (0, 1)
    ticks = ax.get_yticklabels() if is_sideways else ax.get_xticklabels()
    boxes = [
        {
            "label": tick.get_text(),
            **{"min": span[across][0], "first_quartile": span[across][0], "median": span[across][0]},
            **{"third_quartile": span[across][1], "max": span[across][1], "outliers": []},
        }
        for tick, span in zip(ticks, spans)
    ]
    for line in ax.lines:
        places = [_rounded(value) for value in (line.get_ydata() if is_sideways else line.get_xdata())]
        values = [_rounded(value) for value in (line.get_xdata() if is_sideways else line.get_ydata())]
        for box, span in zip(boxes, spans):
            low, high = span[along]
            if places and all(low <= place <= high for place in places):
                _add_line(box, span[across], values)
                break
    return is_sideways, boxes


def _add_line(box: dict[str, Any], span: tuple[float, float], values: list[float]) -> None:
    """One line of a box: its median, a whisker, the end of a whisker, or outliers."""
    low, high = span
    if len(values) == 2 and values[0] != values[1]:
        box["min"], box["max"] = min(box["min"], *values), max(box["max"], *values)
    elif len(values) == 2 and low <= values[0] <= high:
        box["median"] = values[0]
    elif len(values) != 2:
        box["outliers"].extend(value for value in values if value < low or value > high)
