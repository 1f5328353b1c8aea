"""python -m zero3probe merge: the run files, or the traces, that several ranks recorded, as one."""
import argparse
import json
import sys
from typing import Any, Dict, List, Optional

from zero3probe.run_writer import dumps

BAD_INPUT = 2
_TRACE = "zero3sim-trace"


class CannotMerge(Exception):
    """Why not, in one line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE.rankN", help="run files or traces, one of every rank")
    parser.add_argument("-o", "--out", help="the file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Writes the merged run; an exit code."""
    try:
        parts = [_read(path) for path in args.files]
        traces = [part[0]["format"] == _TRACE for part in parts]
        if any(traces) and not all(traces):
            raise CannotMerge("run files and traces: merge each by themselves")
        lines = merged_traces(parts) if all(traces) else merged(parts)
        if args.out is None:
            sys.stdout.write("".join(line + "\n" for line in lines))
        else:
            with open(args.out, "w", encoding="utf-8") as file:
                file.write("".join(line + "\n" for line in lines))
    except (CannotMerge, OSError) as error:
        sys.stderr.write("zero3probe: %s\n" % error)
        return BAD_INPUT
    return 0


def _read(path: str) -> List[Dict[str, Any]]:
    """The lines of one rank's file, up to where it was cut."""
    items: List[Dict[str, Any]] = []
    with open(path, encoding="utf-8") as file:
        for number, text in enumerate(file, 1):
            try:
                items.append(json.loads(text))
            except ValueError:
                if text.endswith("\n"):
                    raise CannotMerge("%s:%d: not JSON" % (path, number)) from None
    if not items or not isinstance(items[0], dict) or items[0].get("format") not in ("zero3sim-run", _TRACE):
        raise CannotMerge("%s: neither a run file nor a trace" % path)
    return items


def merged(parts: List[List[Dict[str, Any]]]) -> List[str]:
    """One run: the ranks in order, plans numbered anew. Raises CannotMerge where ranks are missing."""
    by_rank = _by_rank(parts)
    header = by_rank[0][0]
    lines, plans = [dumps(header)], {}  # type: ignore[var-annotated]
    for rank in sorted(by_rank):
        if by_rank[rank][0]["modules"] != header["modules"]:
            raise CannotMerge("rank %d recorded another model than rank 0" % rank)
        lines += _renumbered(by_rank[rank][1:], plans)
    if all(part[-1].get("end") is True for part in parts):
        lines.append(dumps({"end": True}))
    return lines


def merged_traces(parts: List[List[Dict[str, Any]]]) -> List[str]:
    """One trace: the ranks in order. Without its end line where a rank's has none. Raises CannotMerge."""
    by_rank = _by_rank(parts)
    lines = [dumps(by_rank[0][0])]
    for rank in sorted(by_rank):
        if any(by_rank[rank][0].get(key) != by_rank[0][0].get(key) for key in ("scenario", "deepspeed")):
            raise CannotMerge("rank %d traced another script or release than rank 0" % rank)
        lines += [dumps(item) for item in by_rank[rank][1:] if item.get("event") != "end"]
    if all(part[-1].get("event") == "end" for part in parts):
        lines.append(dumps({"event": "end"}))
    return lines


def _by_rank(parts: List[List[Dict[str, Any]]]) -> Dict[int, List[Dict[str, Any]]]:
    by_rank = {_rank_of(part): part for part in parts}
    ranks = by_rank[min(by_rank)][0]["ranks"]
    if sorted(by_rank) != list(range(ranks)):
        raise CannotMerge("there are %d ranks, and files of the ranks %s"
                          % (ranks, ", ".join(str(rank) for rank in sorted(by_rank))))
    return by_rank


def _rank_of(part: List[Dict[str, Any]]) -> int:
    rank: Optional[int] = next((item["rank"] for item in part if "rank" in item), None)
    if rank is None:
        raise CannotMerge("a file has no statement of any rank")
    return rank


def _renumbered(items: List[Dict[str, Any]], plans: Dict[str, int]) -> List[str]:
    lines, numbers = [], {}
    for item in items:
        if item.get("end") is True:
            continue
        if "plan" in item:
            key = dumps({name: value for name, value in item.items() if name != "plan"})
            new = key not in plans
            numbers[item["plan"]] = plans.setdefault(key, len(plans))
            if not new:
                continue
            item = dict(item, plan=plans[key])
        for op in item.get("ops", ()):
            if "plan" in op:
                op["plan"] = numbers[op["plan"]]
        lines.append(dumps(item))
    return lines
