"""Run files: what is written reads back, what is wrong is told with its line, what was cut is marked."""
import io
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probe"))
from zero3probe.run import Call  # noqa: E402
from zero3probe.run_reader import BadRunFile, RunReader, read_runs  # noqa: E402
from zero3probe.run_writer import write_run  # noqa: E402

HEADER = {"format": "zero3sim-run", "version": 1, "name": "n", "ranks": 2, "seed": 0,
          "input_requires_grad": True, "deepspeed_config": {"zero_optimization": {"stage": 3}},
          "engines": [{"root": 0, "optimizer": True}],
          "modules": [{"name": "root", "type": "Root", "children": [["a", 1], ["b", 2]]},
                      {"name": "a", "type": "Linear",
                       "params": [{"name": "weight", "shape": [8, 8]},
                                  {"name": "bias", "shape": [8], "requires_grad": False}]},
                      {"name": "b", "type": "B", "params": [{"name": "tied", "same_as": [1, 0]}],
                       "externals": [{"param": [1, 1], "registered": True}], "outputs": 2, "leaf": True}]}
LINES = [
    HEADER,
    {"plan": 0, "calls": [1, [2, [1]],
                          {"module": 2, "calls": [1], "checkpoint": "reentrant", "detach": True,
                           "discard": True}]},
    {"rank": 0, "text": "t", "ops": [{"op": "train"}, {"op": "forward", "plan": 0}, {"op": "backward"},
                                     {"op": "step", "overflow": True}]},
    {"rank": 0, "text": "g", "ops": [{"op": "gather", "params": [[1, 0]], "modifier_rank": 0},
                                     {"op": "gather_exit"}]},
    {"rank": 1, "same_as": 0},
    {"end": True},
]


def text_of(lines):
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)


def read(text):
    return list(read_runs(io.StringIO(text), "f"))


class RunFile(unittest.TestCase):
    def fails(self, lines, message):
        with self.assertRaises(BadRunFile) as caught:
            read(text_of(lines))
        self.assertEqual(str(caught.exception), message)

    def test_written_as_read(self):
        runs = read(text_of(LINES) * 2)
        self.assertEqual(len(runs), 2)
        out = io.StringIO()
        write_run(runs[1], out)
        self.assertEqual(out.getvalue(), text_of(LINES))

    def test_regions_of_recorded_plans_are_written_as_read(self):
        calls = [1, {"read": [1, 0]},
                 [2, [{"region": "non-reentrant", "calls": [[1, [{"stop": True}]]]},
                      {"region": "reentrant", "calls": [{"module": 1, "in": [0, 0], "first_in": [1],
                                                         "first_out": [0, 2]}], "out": [1, 0]}]]]
        plan = {"plan": 0, "root": {}, "calls": calls}
        lines = [HEADER, plan] + LINES[2:]
        out = io.StringIO()
        write_run(read(text_of(lines))[0], out)
        self.assertEqual(out.getvalue(), text_of(lines))

    def test_what_is_wrong_with_a_region_is_told(self):
        def wrong(call, message, root=True):
            plan = dict({"plan": 0, "calls": [call]}, **({"root": {}} if root else {}))
            self.fails([HEADER, plan], "f:2: " + message)
        wrong({"region": "often", "calls": []},
              '"region" is one of reentrant, non-reentrant, whole-recompute, not often')
        wrong({"region": "reentrant"}, 'a region has no "calls"')
        wrong({"stop": False}, '"stop" is true, or absent')
        wrong({"module": 1, "first_in": [1, 2, 3]},
              "the tensors of a first pass are 1 or 2 whole numbers, not [1, 2, 3]")
        wrong({"module": 1, "checkpoint": "reentrant"},
              'a call of a recorded plan has the unknown key "checkpoint"')
        wrong({"region": "reentrant", "calls": []}, 'a call has no "module"', root=False)

    def test_reads_every_form_of_call(self):
        run = read(text_of(LINES))[0]
        self.assertEqual(run.plans[0], [Call(1), Call(2, [Call(1)]),
                                        Call(2, [Call(1)], "reentrant", True, True)])
        self.assertIs(run.programs[1], run.programs[0])
        self.assertFalse(run.partial)

    def test_a_cut_file_is_partial_wherever_the_cut_is(self):
        whole = text_of(LINES)
        first = whole.index("\n") + 1
        for cut in range(first, len(whole) - 1):
            run = read(whole[:cut])[0]
            self.assertTrue(run.partial, cut)
            self.assertEqual(len(run.programs), 2)

    def test_a_run_after_a_wrong_one_is_read(self):
        wrong = [HEADER, {"rank": 0, "text": "t", "ops": [{"op": "fly"}]}, {"end": True}]
        reader = RunReader(io.StringIO(text_of(wrong) + text_of(LINES)), "f")
        with self.assertRaises(BadRunFile):
            reader.read()
        reader.skip_to_end()
        self.assertEqual(len(reader.read().programs[0]), 2)

    def test_what_is_wrong_is_told_with_its_line(self):
        self.fails([dict(HEADER, version=2)], "f:1: a run file of version 2; this program knows version 1")
        self.fails([{"format": "zero3sim-trace"}],
                   'f:1: not a run file: its first line has "format": "zero3sim-run"')
        self.fails([dict(HEADER, colour="red")], 'f:1: the first line has the unknown key "colour"')
        self.fails([HEADER, {"plan": 1, "calls": []}], "f:2: plan 1 where plan 0 is next")
        self.fails([HEADER, {"plan": 0, "calls": [3]}], "f:2: there is no module 3; they are 0 to 2")
        self.fails([HEADER, {"rank": 0, "text": "t", "ops": [{"op": "fly"}]}], 'f:2: unknown op "fly"')
        self.fails([HEADER, {"rank": 0, "text": "t", "ops": [{"op": "backward", "overflow": True}]}],
                   'f:2: an op has the unknown key "overflow"')
        self.fails([HEADER, {"rank": 1, "text": "t", "ops": []}],
                   "f:2: rank 1 here; the ranks follow one after the other, up to 1")
        self.fails([HEADER, {"rank": 0, "text": "t", "ops": []}, {"end": True}],
                   "f:3: the run ends without statements of rank 1")
        self.fails([dict(HEADER, ranks=True)],
                   'f:1: "ranks" of the first line is a whole number from 1, not true')

    def test_text_that_is_no_json(self):
        with self.assertRaisesRegex(BadRunFile, "^f:1: not JSON: "):
            read("hello\n")


if __name__ == "__main__":
    unittest.main()
