"""zero3sim and zero3probe unroll every scenario to the same bytes, and refuse the same files at the same line."""
import glob
import io
import os
import re
import subprocess
import sys
import tempfile
import unittest
from typing import List, Optional, Tuple

sys.path.insert(0, "probe")
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

try:
    import yaml  # noqa: F401
    HAVE_YAML = True
except ImportError:
    HAVE_YAML = False

import scenario_cases  # noqa: E402
from zero3probe import inputs  # noqa: E402
from zero3probe.run_writer import write_run  # noqa: E402

ZERO3SIM = os.environ.get("ZERO3SIM", "build/bin/zero3sim")
Settings = Tuple[Optional[int], Optional[int]]


def by_zero3sim(path: str, ranks: Optional[int], seed: Optional[int]) -> Tuple[bytes, str]:
    """The run file, and what is on stderr."""
    command = [ZERO3SIM, "unroll", path]
    command += [] if ranks is None else ["--ranks", str(ranks)]
    command += [] if seed is None else ["--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    return done.stdout, done.stderr.decode("utf-8", "replace")


def by_zero3probe(path: str, ranks: Optional[int], seed: Optional[int]) -> Tuple[bytes, str]:
    text = io.StringIO()
    try:
        for run in inputs.load(path, ranks, seed):
            write_run(run, text)
    except inputs.BadInput as error:
        return b"", str(error)
    return text.getvalue().encode("utf-8"), ""


@unittest.skipUnless(HAVE_YAML, "PyYAML is not installed")
@unittest.skipUnless(os.path.exists(ZERO3SIM), "zero3sim is not built")
class Unroll(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "case.yaml")

    def write(self, text: str) -> str:
        with open(self.path, "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return self.path

    def expect_same(self, path: str, settings: List[Settings], what: str) -> None:
        for ranks, seed in settings:
            wanted, errors = by_zero3sim(path, ranks, seed)
            self.assertEqual(errors, "", what)
            got, refusal = by_zero3probe(path, ranks, seed)
            self.assertEqual(refusal, "", what)
            for ours, theirs in zip(got.splitlines(), wanted.splitlines()):
                self.assertEqual(ours, theirs, "%s, ranks %s, seed %s" % (what, ranks, seed))
            self.assertEqual(got, wanted, what)

    def test_every_scenario_of_the_repository(self) -> None:
        paths = glob.glob("scenarios/**/*.yaml", recursive=True) + glob.glob("docs/examples/*.yaml")
        self.assertGreater(len(paths), 10)
        for path in sorted(paths):
            self.expect_same(path, [(None, None), (3, 7)], path)

    def test_every_feature_and_preset(self) -> None:
        for text in scenario_cases.good():
            self.expect_same(self.write(text), [(None, None), (3, 2**64 - 1)], text)

    def test_a_draw_depends_on_the_seed(self) -> None:
        text = next(text for text in scenario_cases.good() if "choose" in text)
        outputs = {by_zero3probe(self.write(text), 2, seed)[0] for seed in range(20)}
        self.assertEqual(len(outputs), 20)

    def test_the_same_is_refused_at_the_same_line(self) -> None:
        for text in scenario_cases.bad():
            path = self.write(text)
            wanted, errors = by_zero3sim(path, None, None)
            self.assertEqual(wanted, b"", text[:300])
            got, refusal = by_zero3probe(path, None, None)
            self.assertEqual(got, b"", text[:300])
            line = re.compile(re.escape(path) + r"(?::(\d+):\d+)?: error: ")
            ours, theirs = line.match(refusal), line.match(errors)
            self.assertIsNotNone(theirs, errors)
            self.assertIsNotNone(ours, refusal)
            if ours is not None and theirs is not None:
                self.assertEqual(ours.group(1), theirs.group(1), "%s\n%s\n%s" % (text[:300], refusal, errors))


if __name__ == "__main__":
    unittest.main()
