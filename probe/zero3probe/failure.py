"""What a trace says of an exception, and of a rank that does not come to an end."""
import sys
import threading
from types import CodeType, FrameType
from typing import Any, Dict, List, Optional, Set

# Functions of DeepSpeed and torch that only wrap others: profiling ranges, decorators.
_WRAPPERS = {"decorate_context", "wrapped_fn", "wrapped", "_fn", "ret_val", "_call_impl",
             "_wrapped_call_impl", "inner"}


def _is_deepspeed(code: CodeType, folder: str, taps: Set[CodeType]) -> bool:
    return (code.co_filename.startswith(folder) and code.co_name not in _WRAPPERS and code not in taps
            and not code.co_filename.endswith("/nvtx.py"))


def failure_keys(error: BaseException, folder: str, taps: Set[CodeType]) -> Dict[str, Any]:
    """`exception`, `text`, `path`: DeepSpeed's functions (files below `folder`), the engine's method first."""
    path: List[str] = []
    traceback = error.__traceback__
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if _is_deepspeed(code, folder, taps):
            path.append(code.co_name)
        traceback = traceback.tb_next
    return {"exception": type(error).__name__, "text": str(error), "path": path}


def where_is(thread: threading.Thread, folder: str, taps: Set[CodeType]) -> str:
    """What a thread is doing: the module of the model, and DeepSpeed's functions, innermost last."""
    frame: Optional[FrameType] = sys._current_frames().get(thread.ident or 0)
    functions: List[str] = []
    module = ""
    innermost = "" if frame is None else frame.f_code.co_name
    while frame is not None:
        if _is_deepspeed(frame.f_code, folder, taps):
            functions.insert(0, frame.f_code.co_name)
        if not module:
            module = _module_of(frame)
        frame = frame.f_back
    text = "in " + " > ".join(functions[-6:]) if functions else "outside DeepSpeed"
    if innermost and innermost not in _WRAPPERS and functions[-1:] != [innermost]:
        text += ", in %s" % innermost
    return text + (" for module %s" % module if module else "")


def _module_of(frame: FrameType) -> str:
    for name in ("current_submodule", "sub_module", "submodule", "self"):
        qualified = getattr(frame.f_locals.get(name), "probe_name", None)
        if isinstance(qualified, str):
            return qualified
    return ""
