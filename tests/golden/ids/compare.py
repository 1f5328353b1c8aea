"""Compares a file that record.py wrote with what `zero3sim ids` says of the same configs: compare.py FILE ZERO3SIM.

Exit code 1 where a module or parameter differs; says which.
"""
import json
import os
import subprocess
import sys
from typing import Any, Dict, List

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "configs")


def simulated(zero3sim: str, head: Dict[str, Any], config: str) -> Dict[str, List[Any]]:
    """The rows of zero3sim in record.py's form."""
    command = [zero3sim, "ids", os.path.join(FOLDER, config + ".json"), "--format", "json", "--deepspeed",
               head["deepspeed"].split("+")[0], "--transformers", head["transformers"].split(".")[0],
               "--persist", str(head["persistence_threshold"])]
    found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    modules = [[row["id"], "" if row["name"] == "root" else row["name"], row["type"]]
               for row in found["modules"] if row["id"] is not None]
    params = [[row["ds_id"], row["name"], row["shape"], row["persistent"]] for row in found["params"]]
    return {"modules": modules, "params": params}


def main() -> int:
    with open(sys.argv[1]) as file:
        head, *models = [json.loads(line) for line in file]
    differing = 0
    for model in models:
        own = simulated(sys.argv[2], head, model["config"])
        for key, rows in own.items():
            if rows == sorted(model[key]):
                continue
            differing += 1
            print("%s: %s: zero3sim alone has %s, real DeepSpeed alone %s" % (
                model["config"], key, [row for row in rows if row not in model[key]],
                [row for row in model[key] if row not in rows]))
    print("DeepSpeed %s, transformers %s: %d models, %d lists differ" % (
        head["deepspeed"], head["transformers"], len(models), differing))
    return 1 if differing or not models else 0


if __name__ == "__main__":
    sys.exit(main())
