"""The DeepSpeed of this interpreter, imported once, with what it needs done before and after."""
import importlib
import logging
import os
import platform
import sys
import traceback
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List

from zero3probe import compat

# Modules that the first engine would import, of those that some release has: imported before the ranks are forked.
_IMPORTED_LATE = ("deepspeed.runtime.zero.stage3", "deepspeed.runtime.zero.partition_parameters",
                  "deepspeed.runtime.zero.parameter_offload", "deepspeed.runtime.engine",
                  "deepspeed.utils.tensor_fragment", "deepspeed.runtime.zero.muon.muon_optimizer",
                  "torch.utils.checkpoint")


@dataclass(frozen=True)
class Installed:
    """What runs: the release, and whether on GPUs."""
    release: compat.Release
    version: str  # DeepSpeed's own, which may say more than the release
    torch: str
    on_gpu: bool
    folder: str  # DeepSpeed's

    def source(self, command: List[str]) -> Dict[str, Any]:
        """Of a trace's first line."""
        return {"deepspeed": self.version, "torch": self.torch, "python": platform.python_version(),
                "command": command}


def import_deepspeed() -> Installed:
    """Imports it, under the shims of its release. Raises compat.Unavailable."""
    release = compat.installed_release()
    on_gpu = compat.has_gpu()
    shims = compat.shims_for(release, on_gpu)
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29500")
    os.environ.setdefault("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")  # checkpoints are our own: of any release
    if not on_gpu and not shims:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    warnings.simplefilter("ignore")
    import torch
    torch.set_num_threads(1)
    try:
        for shim in shims:
            if shim.before_import:
                shim.apply()
        deepspeed = importlib.import_module("deepspeed")
        for shim in shims:
            if not shim.before_import:
                shim.apply()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        raise compat.Unavailable(_import_failure(release, error)) from error
    logging.disable(logging.ERROR)
    for name in _IMPORTED_LATE:
        _import_if_there(name)
    if not on_gpu and not shims:
        _build_communication_op()
    return Installed(release, str(deepspeed.__version__), torch.__version__.split("+")[0], on_gpu,
                     os.path.dirname(os.path.abspath(deepspeed.__file__)))


def _import_failure(release: compat.Release, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return ("DeepSpeed %s does not import in %s: %s: %s (%s:%d)"
            % (compat.release_text(release), sys.executable, type(error).__name__,
               " ".join(str(error).split())[:300], last.filename, last.lineno or 0))


def _import_if_there(name: str) -> None:
    try:
        importlib.import_module(name)
    except Exception:  # an optional part: whoever needs it will say so
        pass


def _build_communication_op() -> None:
    """The CPU's shared-memory op: compiled at its first use in an environment (half a minute), loaded here."""
    try:
        from deepspeed.accelerator import get_accelerator
        builder = get_accelerator().create_op_builder("ShareMemCommBuilder")
        if builder is not None:
            builder.load(verbose=False)
    except BaseException as error:  # DeepSpeed does without; sys.exit is among what it raises
        if isinstance(error, KeyboardInterrupt):
            raise
