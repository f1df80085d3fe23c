"""Shows Matplotlib figures as results, on the agg backend."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
import weakref
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

BACKEND = "matplotlib.backends.backend_agg"


class Figures:
    def __init__(self, shell: Any, print_figure: Callable[[Any], bytes | None]) -> None:
        """`shell` has the formatter and publisher of IPython's, or plain ones of the same shape."""
        self._shell = shell
        self._print_figure = print_figure
        self._shown: weakref.WeakSet[Any] = weakref.WeakSet()
        png = shell.display_formatter.formatters["image/png"]
        png.for_type_by_name("matplotlib.figure", "Figure", self._as_png)
        sys.meta_path.insert(0, BackendHook(self))

    def _as_png(self, figure: Any) -> bytes | None:
        self._shown.add(figure)
        return self._print_figure(figure)

    def show_open(self) -> None:
        """Shows all open figures that this run has not shown yet, by number; then closes them."""
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is None or not helpers.Gcf.figs:
            return
        try:
            for manager in helpers.Gcf.get_all_fig_managers():
                if manager.canvas.figure not in self._shown:
                    self._display(manager.canvas.figure)
        finally:
            self.close_open()

    def close_open(self) -> None:
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None and helpers.Gcf.figs:
            helpers.Gcf.destroy_all()
        self._shown.clear()

    def show_all(self) -> None:
        """plt.show(): shows all open figures, also those shown before."""
        self._shown.clear()
        self.show_open()

    def show_one(self, figure: Any) -> None:
        self._display(figure)

    def _display(self, figure: Any) -> None:
        data, metadata = self._shell.display_formatter.format(figure)
        if "image/png" in data:
            self._shell.display_pub.publish(data=data, metadata=metadata)

    def patch(self, backend: ModuleType) -> None:
        figures = self
        base = backend.FigureCanvasAgg.manager_class

        class KernelFigureManager(base):  # type: ignore[misc, valid-type]
            def show(self) -> None:
                figures.show_one(self.canvas.figure)

            @classmethod
            def pyplot_show(cls, *args: Any, **kwargs: Any) -> None:
                figures.show_all()

        backend.FigureCanvasAgg.manager_class = KernelFigureManager


class BackendHook(importlib.abc.MetaPathFinder):
    """Patches the backend when user code imports it, so that kernels without plots do not load it."""

    def __init__(self, figures: Figures) -> None:
        self._figures = figures

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != BACKEND:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            sys.meta_path.remove(self)
            spec.loader = PatchingLoader(spec.loader, self._figures)
        return spec


class PatchingLoader(importlib.abc.Loader):
    def __init__(self, loader: Any, figures: Figures) -> None:
        self._loader = loader
        self._figures = figures

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._figures.patch(module)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
