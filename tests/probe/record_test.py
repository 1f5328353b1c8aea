"""Recording without torch: plans from calls, tensors in containers, and files that cannot be written."""
import io
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probe"))
from zero3probe.merge_command import CannotMerge, merged, merged_traces  # noqa: E402
from zero3probe.record.plans import Ends, Frame, Plans, Region, reachable  # noqa: E402
from zero3probe.record.recorder import ends_of  # noqa: E402
from zero3probe.record.writer import Lines  # noqa: E402
from zero3probe.run import Call, Flow, Tensors  # noqa: E402
from zero3probe.run_writer import call_item  # noqa: E402


class Node:
    """A node of autograd's graph."""

    def __init__(self, *following):
        self.next_functions = tuple((each, 0) for each in following)


class Tensor:
    def __init__(self, node=None, requires_grad=True):
        self.grad_fn = node
        self.requires_grad = requires_grad


def is_tensor(value):
    return isinstance(value, Tensor)


class PlansTest(unittest.TestCase):
    def test_backward_comes_to_what_the_loss_leads_back_to(self):
        used, unused = Node(), Node()
        loss = Node(Node(used), None)
        frame = Frame(3)
        frame.outputs.plain = [used, unused]
        frame.inputs.contained = [unused]
        frame.settle(reachable(loss))
        self.assertEqual(frame.call().flow, Flow(Tensors(0, 0, 1, 0), Tensors(2, 1, 0, 0)))

    def test_without_a_backward_all_are_taken_to_be_reached(self):
        frame = Frame(0)
        frame.outputs.plain = [Node(), Node()]
        self.assertEqual(frame.call().flow.outputs, Tensors(2, 2, 0, 0))

    def test_containers_count_apart(self):
        ends = Ends()
        plain = Tensor(Node())
        frozen = Tensor(None, False)
        ends_of((plain, (Tensor(Node()), None), [Tensor(Node())], {"a": Tensor(Node())}, frozen, 3), ends,
                is_tensor)
        self.assertEqual((len(ends.plain), len(ends.contained)), (2, 2))

    def test_equal_plans_are_written_once(self):
        lines = []
        plans = Plans(lines.append)
        usual = Flow(Tensors(1, 1), Tensors(1, 1))
        self.assertEqual(plans.number([Call(1, flow=usual)], usual), 0)
        self.assertEqual(plans.number([Call(2, flow=usual)], usual), 1)
        self.assertEqual(plans.number([Call(1, flow=usual)], usual), 0)
        self.assertEqual(lines, ['{"plan":0,"root":{},"calls":[1]}', '{"plan":1,"root":{},"calls":[2]}'])

    def test_a_weight_that_is_read_twice_is_there_once(self):
        frame = Frame(0)
        frame.reads((2, 0))
        frame.reads((2, 0))
        self.assertEqual([call.read for call in frame.call().calls], [(2, 0)])


class RegionsTest(unittest.TestCase):
    """The body of module 1: its recomputation calls 2, which calls 3, and 4."""

    def region(self, kind):
        region = Region(1, kind)
        region.calls = [Frame(2), (5, 0), Frame(4)]
        region.calls[0].calls = [Frame(3)]
        return region

    def items(self, region):
        return call_item(region.call())

    def test_a_reentrant_one_has_the_tensors_of_both_passes(self):
        region = self.region("reentrant")
        region.calls[0].inputs.plain = [None]  # what the region was given requires grad in the first pass too
        region.outputs.plain = [Node()]
        again, output = self.region("reentrant"), Node()
        again.calls[0].inputs.plain = [None]
        again.calls[2].outputs.plain = [output, Node()]
        region.recompute(again, [Node(output)])
        self.assertEqual(self.items(region), {"region": "reentrant", "calls": [
            {"module": 2, "calls": [{"module": 3, "in": [0, 0], "out": [0, 0]}], "out": [0, 0],
             "first_in": [1]},
            {"read": [5, 0]}, {"module": 4, "in": [0, 0], "out": [2, 1]}]})

    def test_a_backward_around_a_reentrant_one_says_nothing_of_what_is_in_it(self):
        region = self.region("reentrant")
        region.calls[0].inputs.plain = [Node()]
        region.settle(set())
        self.assertIsNone(region.calls[0].inputs.settled)

    def test_without_a_recomputation_there_are_the_tensors_of_the_first_pass(self):
        region = self.region("reentrant")
        region.calls[2].inputs.contained = [None]
        region.outputs.plain = [None]
        self.assertEqual(self.items(region)["calls"][2],
                         {"module": 4, "in": [0, 0, 1, 1], "out": [0, 0], "first_in": [0, 1]})

    def test_where_the_recomputation_stops_is_in_the_call_that_did_not_return(self):
        region = self.region("non-reentrant")
        again = Region(1, "non-reentrant")
        again.calls = [Frame(2)]
        again.calls[0].calls = [Frame(3)]
        again.calls[0].calls[0].returned = True
        region.stopped(again)
        self.assertEqual(self.items(region)["calls"][0]["calls"][-1], {"stop": True})
        again.calls[0].returned = True
        region = self.region("non-reentrant")
        region.stopped(again)
        self.assertEqual([item.get("stop", False) for item in self.items(region)["calls"]],
                         [False, False, True, False])

    def test_one_that_runs_to_its_end_is_a_whole_recompute(self):
        region = self.region("non-reentrant")
        region.recompute(self.region("non-reentrant"), [])
        self.assertEqual(region.kind, "whole-recompute")

    def test_another_recomputation_than_the_first_pass_is_taken_as_it_is(self):
        region, again = self.region("reentrant"), self.region("reentrant")
        again.calls = [Frame(7)]
        region.recompute(again, [])
        self.assertEqual([call.module for call in region.call().calls], [7])


class LinesTest(unittest.TestCase):
    def test_every_line_is_there_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            lines = Lines(os.path.join(folder, "run"))
            lines.write("a")
            with open(lines.path, encoding="utf-8") as file:
                self.assertEqual(file.read(), "a\n")
            lines.close()

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full here")
    def test_a_full_disk_is_said_once_and_breaks_nothing(self):
        said = io.StringIO()
        with redirect_stderr(said):
            lines = Lines("/dev/full")
            for _ in range(3):
                lines.write("x" * 100)
            lines.close()
        self.assertTrue(lines.failed)
        self.assertEqual(said.getvalue().count("recording stopped, the training goes on"), 1)
        self.assertIn("No space left", said.getvalue())


class MergeTest(unittest.TestCase):
    def part(self, rank, plan):
        return [{"format": "zero3sim-run", "ranks": 2, "modules": []}, {"plan": 0, "calls": [plan]},
                {"rank": rank, "text": "forward 1", "ops": [{"op": "forward", "plan": 0}]}, {"end": True}]

    def test_plans_are_numbered_anew_and_equal_ones_are_one(self):
        lines = merged([self.part(1, 5), self.part(0, 5)])
        self.assertEqual(lines[1:], ['{"plan":0,"calls":[5]}',
                                     '{"rank":0,"text":"forward 1","ops":[{"op":"forward","plan":0}]}',
                                     '{"rank":1,"text":"forward 1","ops":[{"op":"forward","plan":0}]}',
                                     '{"end":true}'])
        lines = merged([self.part(0, 5), self.part(1, 6)])
        self.assertEqual(lines[3:5], ['{"plan":1,"calls":[6]}',
                                      '{"rank":1,"text":"forward 1","ops":[{"op":"forward","plan":1}]}'])

    def test_a_rank_that_is_missing_is_named(self):
        with self.assertRaisesRegex(CannotMerge, "there are 2 ranks, and files of the ranks 1"):
            merged([self.part(1, 5)])

    def test_traces_are_merged_in_the_order_of_the_ranks(self):
        def part(rank):
            return [{"format": "zero3sim-trace", "ranks": 2, "scenario": "train.py", "deepspeed": "0.15.2"},
                    {"rank": rank, "statement": 0, "event": "statement", "text": "forward 1"}, {"event": "end"}]
        lines = merged_traces([part(1), part(0)])
        self.assertEqual([line[:9] for line in lines[1:]], ['{"rank":0', '{"rank":1', '{"event":'])
        self.assertNotIn('{"event":"end"}', merged_traces([part(1)[:-1], part(0)]))
        other = part(1)
        other[0]["deepspeed"] = "0.19.8"
        with self.assertRaisesRegex(CannotMerge, "another script or release"):
            merged_traces([part(0), other])

    def test_a_rank_that_was_cut_leaves_the_whole_cut(self):
        self.assertNotIn('{"end":true}', merged([self.part(0, 5)[:-1], self.part(1, 5)]))


if __name__ == "__main__":
    unittest.main()
