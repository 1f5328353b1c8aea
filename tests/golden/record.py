#!/usr/bin/env python3
"""Records tests/golden/traces: the programs of tests/golden/programs on real DeepSpeed releases.

usage: tests/golden/record.py RELEASE... [--only NAME] [--ranks N]
       tests/golden/record.py --show FILE RELEASE RANKS

Needs scripts/deepspeed-env to work here (network on its first use). Each program runs on 1 and 2 ranks. Recording a
release again replaces what it left before; releases that are not named keep theirs. Traces repeat themselves, so a file
of traces/ is packed, each thing once; README.md there tells how. --show unpacks one as the trace it was.
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from typing import Dict, List, Tuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LINE = re.compile(r'^\{"rank":(\d+),"statement":(\d+),')
Recorded = Dict[Tuple[int, str], Tuple[dict, List[str]]]  # (ranks, release) -> (source, lines but first and last)


class Table:
    """Things by number, each once."""

    def __init__(self, items: List = ()) -> None:
        self.items = list(items)
        self.numbers = {json.dumps(item): number for number, item in enumerate(self.items)}

    def number(self, item) -> int:
        key = json.dumps(item)
        if key not in self.numbers:
            self.numbers[key] = len(self.items)
            self.items.append(item)
        return self.numbers[key]


def release_order(release: str) -> List[int]:
    return [int(part) for part in release.split(".")]


def pack(recorded: Recorded) -> str:
    """The text of a golden file."""
    lines, statements, traces = Table(), Table(), {}
    for ranks, release in sorted(recorded, key=lambda key: (key[0], release_order(key[1]))):
        source, body = recorded[ranks, release]
        by_rank: Dict[int, Dict[int, List[int]]] = {}
        for line in body:
            found = LINE.match(line)
            rest = lines.number("{" + line[found.end():])
            by_rank.setdefault(int(found.group(1)), {}).setdefault(int(found.group(2)), []).append(rest)
        packed = [[statements.number(refs) for refs in by_rank[rank].values()] for rank in sorted(by_rank)]
        packed = [packed.index(one) if one in packed[:at] else one for at, one in enumerate(packed)]
        traces.setdefault(json.dumps([ranks, packed]), []).append(source)
    rows = [{"lines": lines.items}, {"statements": statements.items}]
    for key, sources in traces.items():
        ranks, packed = json.loads(key)
        rows.append({"ranks": ranks, "releases": sources, "by_rank": packed})
    first = "{\"lines\":[\n" + ",\n".join(json.dumps(line) for line in lines.items) + "]}"
    return "\n".join([first] + [json.dumps(row, separators=(",", ":")) for row in rows[1:]]) + "\n"


def unpack(text: str) -> Recorded:
    end = text.index("]}\n{\"statements\"") + 2
    rows = [json.loads(text[:end])] + [json.loads(line) for line in text[end:].splitlines() if line]
    lines, statements = rows[0]["lines"], rows[1]["statements"]
    recorded: Recorded = {}
    for row in rows[2:]:
        by_rank = [row["by_rank"][one] if isinstance(one, int) else one for one in row["by_rank"]]
        body = ['{"rank":%d,"statement":%d,%s' % (rank, at, lines[ref][1:])
                for rank, refs in enumerate(by_rank) for at, number in enumerate(refs) for ref in statements[number]]
        for source in row["releases"]:
            recorded[row["ranks"], source["deepspeed"]] = (source, body)
    return recorded


def read(path: pathlib.Path) -> Recorded:
    return unpack(path.read_text()) if path.exists() else {}


def run(release: str, python: str, ranks: int, programs: List[pathlib.Path]) -> List[List[str]]:
    """The traces of the programs, each as its lines."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.jsonl"
        command = [python, "-m", "zero3probe", "run", *map(str, programs), "--ranks", str(ranks), "--out", str(out)]
        done = subprocess.run(command, cwd=str(ROOT), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not out.exists():
            sys.exit(f"{release}: nothing was recorded\n{done.stderr}")
        traces: List[List[str]] = []
        for line in out.read_text().splitlines():
            if line.startswith('{"format":'):
                traces.append([])
            traces[-1].append(line)
        return traces


def keep(traces: List[List[str]], ranks: int) -> None:
    """Puts traces into the files of their programs."""
    for trace in traces:
        header, body = json.loads(trace[0]), trace[1:-1]
        source = {key: header["source"][key] for key in ("deepspeed", "torch", "python")}
        refused = [json.loads(line)["text"] for line in body if line.startswith('{"event":"refused"')]
        if refused:
            print(f"  {source['deepspeed']}: {header['scenario']} is refused: {refused[0]}")
            continue
        path = HERE / "traces" / f"{header['scenario']}.json"
        recorded = read(path)
        recorded[ranks, source["deepspeed"]] = (source, body)
        path.parent.mkdir(exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(pack(recorded))
        assert unpack(partial.read_text()) == recorded
        partial.rename(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="*")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--ranks", type=int, action="append", help="instead of 1 and 2")
    parser.add_argument("--show", nargs=3, metavar=("FILE", "RELEASE", "RANKS"))
    arguments = parser.parse_args()
    if arguments.show:
        file, release, ranks = arguments.show
        print("\n".join(read(pathlib.Path(file))[int(ranks), release][1]))
        return
    programs = [path for path in sorted((HERE / "programs").glob("*.yaml")) if arguments.only in path.name]
    for release in arguments.releases:
        made = subprocess.run([str(ROOT / "scripts" / "deepspeed-env"), release], stdout=subprocess.PIPE, text=True)
        if made.returncode != 0:
            sys.exit(f"{release}: no environment")
        for ranks in arguments.ranks or [1, 2]:
            keep(run(release, made.stdout.strip(), ranks, programs), ranks)
            print(f"{release}, {ranks} rank{'s' if ranks > 1 else ''}: {len(programs)} programs", flush=True)


if __name__ == "__main__":
    main()
