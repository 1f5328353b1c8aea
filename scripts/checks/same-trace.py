"""Whether two traces tell the same: python3 same-trace.py MODEL REAL. What real DeepSpeed leaves open is a set.

Compared: fetches, all-gathers, waits, releases, resets, invalidations, externals, statuses, exceptions with paths.
"""
import json
import sys
from typing import Any, List, Tuple

KEYS = {"statement": ("text",), "statement-end": ("statuses",), "fetch": ("module", "step", "pass"),
        "all-gather": ("params",), "wait": ("params",), "release": ("params",), "reset": (), "step-zero": (),
        "reset-done": ("text",), "invalidate": ("step",), "external": ("module", "params")}
SETS = ("wait", "release")  # neighbours come in any order: Python sets of tensors


def events(path: str) -> List[Tuple[Any, ...]]:
    """Every compared event, neighbouring waits and releases sorted."""
    found: List[Tuple[Any, ...]] = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            item = json.loads(line)
            if item.get("event") not in KEYS:
                continue
            failure = item.get("failure") or {}
            key = [item["rank"], item["statement"], item["event"]]
            key += [str(item.get(name)) for name in KEYS[item["event"]]]
            found.append(tuple(key + [failure.get("exception"), str(failure.get("path"))]))
    at = 0
    while at < len(found):
        end = at
        while end < len(found) and found[end][2] == found[at][2] and found[at][2] in SETS:
            end += 1
        found[at:end] = sorted(found[at:end])
        at = max(end, at + 1)
    return found


def main() -> int:
    model, real = events(sys.argv[1]), events(sys.argv[2])
    for number, (one, other) in enumerate(zip(model, real)):
        if one != other:
            print("event %d differs\n  model: %s\n  real:  %s" % (number, one, other))
            return 1
    if len(model) != len(real) or not real:
        print("the model has %d events, the real run %d" % (len(model), len(real)))
        return 1
    print("the same %d events" % len(real))
    return 0


if __name__ == "__main__":
    sys.exit(main())
