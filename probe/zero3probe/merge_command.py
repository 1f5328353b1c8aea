"""python -m zero3probe merge: the run files that several ranks recorded, as one."""
import argparse
import json
import sys
from typing import Any, Dict, List, Optional

from zero3probe.run_file import dumps

BAD_INPUT = 2


class CannotMerge(Exception):
    """Why not, in one line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", metavar="FILE.rankN", help="what every rank recorded")
    parser.add_argument("-o", "--out", help="the run file to write (default: standard output)")


def run(args: argparse.Namespace) -> int:
    """Writes the merged run; an exit code."""
    try:
        lines = merged([_read(path) for path in args.files])
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
    if not items or items[0].get("format") != "zero3sim-run":
        raise CannotMerge("%s: not a run file" % path)
    return items


def merged(parts: List[List[Dict[str, Any]]]) -> List[str]:
    """One run: the ranks in order, plans numbered anew. Raises CannotMerge where ranks are missing."""
    by_rank = {_rank_of(part): part for part in parts}
    header = dict(by_rank[min(by_rank)][0])
    if sorted(by_rank) != list(range(header["ranks"])):
        raise CannotMerge("there are %d ranks, and files of the ranks %s"
                          % (header["ranks"], ", ".join(str(rank) for rank in sorted(by_rank))))
    lines, plans = [dumps(header)], {}  # type: ignore[var-annotated]
    for rank in sorted(by_rank):
        if by_rank[rank][0]["modules"] != header["modules"]:
            raise CannotMerge("rank %d recorded another model than rank 0" % rank)
        lines += _renumbered(by_rank[rank][1:], plans)
    if all(part[-1].get("end") is True for part in parts):
        lines.append(dumps({"end": True}))
    return lines


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
