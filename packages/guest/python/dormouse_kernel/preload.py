"""Imports modules ahead of the first run, for the snapshot of a template."""

import gc
import importlib
import io
import sys
from collections.abc import Callable

from dormouse_immortal import make_immortal
from dormouse_kernel.report import report_of
from dormouse_kernel.reseed import Reseeder


def preload(modules: list[str]) -> list[str]:
    """Returns the modules that failed. Binds no names. Output of the modules counts as output between runs."""
    failed = []
    for name in modules:
        try:
            importlib.import_module(name)
            if (warm := WARMERS.get(name)) is not None:
                warm()
        except BaseException as error:  # noqa: BLE001 - a module may raise anything
            failed.append(name)
            shown = report_of(error).traceback
            print(f"dormouse: {name} could not be loaded\n{shown}", end="", file=sys.stderr)
    if modules:
        # Every wake does this. Doing it now loads what it needs, above all OpenSSL, into the snapshot.
        Reseeder().reseed(generators=True)
        settle()
    return failed


def settle() -> None:
    """Makes the objects that are there last, in memory that sandboxes share."""
    # The collector writes to every object that it visits, and sandboxes do not share memory that was written.
    gc.collect()
    make_immortal()
    gc.freeze()


def _warm_numpy() -> None:
    # numpy imports this on first use.
    importlib.import_module("numpy.random")


def _warm_pandas() -> None:
    import pandas

    frame = pandas.DataFrame({"key": ["a", "b", "a"], "value": [1.0, 2.0, 3.0]})
    repr(frame.groupby("key").sum())
    frame._repr_html_()
    frame.describe()


def _warm_matplotlib() -> None:
    """Draws a figure without pyplot: loads fonts, backend and PNG writer, and leaves no figure open."""
    importlib.import_module("matplotlib.pyplot")
    from matplotlib import font_manager
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1, 1))
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], label="line")
    axes.legend()
    FigureCanvasAgg(figure).print_png(io.BytesIO())
    # Closes the font files: a new kernel has none open.
    font_manager._get_font.cache_clear()


WARMERS: dict[str, Callable[[], None]] = {
    "numpy": _warm_numpy,
    "pandas": _warm_pandas,
    "matplotlib": _warm_matplotlib,
    "matplotlib.pyplot": _warm_matplotlib,
}
