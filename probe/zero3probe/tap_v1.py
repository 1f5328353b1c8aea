"""Taps on the coordinator of v0.3.12 to v0.5.10: the step is the PrefetchCoordinator's."""
import sys
from typing import Any, Callable

from zero3probe.tap import Tap


def install(tap: Tap, coordinator: Any) -> None:
    """Wraps the methods that zero3probe.tap does not know."""
    def make_fetch(original: Callable) -> Callable:
        def zero3probe_fetch(self, module, *args, **kwargs):
            if not tap.recording:
                return original(self, module, *args, **kwargs)
            step = self.prefetch_coordinator.step_id
            outer, tap.fetched = tap.fetched, (module, step)
            tap.emit("fetch", dict(tap.module_keys(module), step=step, **{"pass": _pass()}))
            try:
                return original(self, module, *args, **kwargs)
            finally:
                tap.fetched = outer
        return zero3probe_fetch

    def make_prefetch(original: Callable) -> Callable:
        def zero3probe_prefetch(self, module, *args, **kwargs):
            outer, tap.fetched = tap.fetched, (module, None)
            try:
                return original(self, module, *args, **kwargs)
            finally:
                tap.fetched = outer
        return zero3probe_prefetch

    def make_wait(original: Callable) -> Callable:
        def zero3probe_synchronize(self, *args, **kwargs):
            if tap.recording and len(self.in_flight_handles) == len(self.params_in_flight):  # else it raises
                for param in self.params_in_flight:
                    tap.emit("wait", dict(tap.param_keys([param]), step=self.prefetch_coordinator.step_id))
            return original(self, *args, **kwargs)
        return zero3probe_synchronize

    def make_reset(original: Callable) -> Callable:
        def zero3probe_reset(self, *args, **kwargs):
            if tap.recording:
                tap.emit("step-zero", {"step": self.prefetch_coordinator.step_id})
            return original(self, *args, **kwargs)
        return zero3probe_reset
    tap.wrap(coordinator, "fetch_sub_module", make_fetch)
    tap.wrap(coordinator, "prefetch_next_sub_modules", make_prefetch)
    tap.wrap(coordinator, "_synchronize_communication", make_wait)
    tap.wrap(coordinator, "reset_step", make_reset)


def _pass() -> str:
    """These releases do not tell the fetch which pass it is in: who calls it."""
    frame = sys._getframe(2)
    while frame is not None and not frame.f_code.co_name.startswith("pre_sub_module_"):
        frame = frame.f_back
    return "backward" if frame is not None and "backward" in frame.f_code.co_name else "forward"
