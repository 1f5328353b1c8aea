#!/usr/bin/env python3
"""Records tests/golden/traces: the programs of tests/golden/programs on real DeepSpeed releases.

usage: tests/golden/record.py RELEASE... [--only NAME] [--ranks N]

Needs scripts/deepspeed-env to work here (network on its first use). Each program runs on 1 and 2 ranks. A file of
traces/ holds one program on one number of ranks: a trace for each way that releases behave, whose first line names
under `also` the other releases that left the very same events. Recording a release again replaces what it left
before; releases that are not named keep theirs.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
from typing import Dict, List, Tuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def releases_in(header: dict) -> Dict[str, dict]:
    """Release -> its source, of all that a golden trace stands for."""
    return {source["deepspeed"]: source for source in [header["source"]] + header.get("also", [])}


def read(path: pathlib.Path) -> Dict[str, Tuple[dict, str]]:
    """Release -> (source, lines after the first) of a golden file; none if there is no such file."""
    found: Dict[str, Tuple[dict, str]] = {}
    header, body = None, []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        if '"format"' in line and json.loads(line).get("format") == "zero3sim-trace":
            header, body = json.loads(line), []
            continue
        body.append(line)
        if json.loads(line).get("event") == "end":
            for release, source in releases_in(header).items():
                found[release] = (source, "".join(body))
    return found


def as_key(release: str) -> List[int]:
    return [int(part) for part in release.split(".")]


def write(path: pathlib.Path, name: str, ranks: int, found: Dict[str, Tuple[dict, str]]) -> None:
    groups: Dict[str, List[str]] = {}
    for release in sorted(found, key=as_key):
        groups.setdefault(found[release][1], []).append(release)
    text = ""
    for body, releases in groups.items():
        header = {"format": "zero3sim-trace", "version": 1, "scenario": name, "deepspeed": releases[0], "ranks": ranks,
                  "source": found[releases[0]][0]}
        if releases[1:]:
            header["also"] = [found[release][0] for release in releases[1:]]
        text += json.dumps(header, separators=(",", ":")) + "\n" + body
    path.parent.mkdir(exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.rename(path)


def record(release: str, python: str, ranks: int, programs: List[pathlib.Path]) -> None:
    """Runs the programs on one release and puts what it left into traces/."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out.jsonl"
        command = [python, "-m", "zero3probe", "run", *map(str, programs), "--ranks", str(ranks), "--out", str(out)]
        done = subprocess.run(command, cwd=str(ROOT), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if not out.exists():
            sys.exit(f"{release}: nothing was recorded\n{done.stderr}")
        recorded: List[Tuple[dict, str]] = []
        for line in out.read_text().splitlines(keepends=True):
            if line.startswith('{"format":'):
                recorded.append((json.loads(line), ""))
            else:
                recorded[-1] = (recorded[-1][0], recorded[-1][1] + line)
    for header, body in recorded:
        if '"event":"refused"' in body:
            print(f"  {release}: {header['scenario']} is refused: {json.loads(body.splitlines()[0])['text']}")
            continue
        path = HERE / "traces" / f"{header['scenario']}.{ranks}.jsonl"
        source = {key: header["source"][key] for key in ("deepspeed", "torch", "python")}
        found = read(path)
        found[source["deepspeed"]] = (source, body)
        write(path, header["scenario"], ranks, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("releases", nargs="+")
    parser.add_argument("--only", default="", help="programs whose name has this in it")
    parser.add_argument("--ranks", type=int, action="append", help="instead of 1 and 2")
    arguments = parser.parse_args()
    programs = [path for path in sorted((HERE / "programs").glob("*.yaml")) if arguments.only in path.name]
    for release in arguments.releases:
        made = subprocess.run([str(ROOT / "scripts" / "deepspeed-env"), release], stdout=subprocess.PIPE, text=True)
        if made.returncode != 0:
            sys.exit(f"{release}: no environment")
        for ranks in arguments.ranks or [1, 2]:
            record(release, made.stdout.strip(), ranks, programs)
            print(f"{release}, {ranks} rank{'s' if ranks > 1 else ''}: {len(programs)} programs")


if __name__ == "__main__":
    main()
