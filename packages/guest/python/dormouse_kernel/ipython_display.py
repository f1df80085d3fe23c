"""IPython's ways to show a value, as `result` messages."""

from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher

from dormouse_kernel.results import ResultSender


class KernelDisplayHook(DisplayHook):
    sender: ResultSender

    def __call__(self, result: Any = None) -> None:
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        data, _ = self.compute_format_data(result)
        self.update_user_ns(result)
        self.fill_exec_result(result)
        if data:
            self.sender.send(data, main=True)

    def quiet(self) -> bool:
        source = self.shell.history_manager.input_hist_parsed
        # Tokenizing is slow, and only matters if there is a semicolon.
        return bool(source) and ";" in source[-1][-4096:] and bool(super().quiet())

    def cull_cache(self) -> None:
        """Drops the oldest outputs, without IPython's warning."""
        cache = self.shell.user_ns.get("_oh", {})
        for number in sorted(cache)[: max(len(cache) // 5, 2)]:
            self.shell.user_ns.pop(f"_{number}", None)
            cache.pop(number, None)


class KernelDisplayPublisher(DisplayPublisher):
    sender: ResultSender

    def publish(self, data: dict[str, Any], metadata: Any = None, source: Any = None, **kwargs: Any) -> None:
        self._validate_data(data, metadata)
        if data:
            self.sender.send(data, main=False)

    def clear_output(self, wait: bool = False) -> None:
        """Does nothing: sent results are in a journal and stay there."""
