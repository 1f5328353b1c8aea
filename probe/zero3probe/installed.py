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
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    on_gpu = compat.has_gpu()
    shims = compat.shims_for(release, on_gpu)
    os.environ.update(RANK="0", WORLD_SIZE="1", LOCAL_RANK="0", LOCAL_SIZE="1")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")  # all ranks are here: no host name is looked up
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
    importlib.import_module("deepspeed.runtime.zero.stage3")
    return Installed(release, str(deepspeed.__version__), torch.__version__.split("+")[0], on_gpu,
                     os.path.dirname(os.path.abspath(deepspeed.__file__)))


def _import_failure(release: compat.Release, error: BaseException) -> str:
    last = traceback.extract_tb(error.__traceback__)[-1]
    return ("DeepSpeed %s does not import in %s: %s: %s (%s:%d)"
            % (compat.release_text(release), sys.executable, type(error).__name__,
               " ".join(str(error).split())[:300], last.filename, last.lineno or 0))
