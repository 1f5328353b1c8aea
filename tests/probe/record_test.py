"""Recording without torch: plans from calls, tensors in containers, and files that cannot be written."""
import io
import os
import sys
import tempfile
import unittest
from contextlib import redirect_stderr
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probe"))
from zero3probe.merge_command import CannotMerge, merged  # noqa: E402
from zero3probe.record.plans import Ends, Frame, Plans, reachable, unfilled_regions  # noqa: E402
from zero3probe.record.recorder import ends_of  # noqa: E402
from zero3probe.record.writer import Lines  # noqa: E402
from zero3probe.run import Call, Flow, Tensors  # noqa: E402


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
        call = frame.call(reachable(loss))
        self.assertEqual(call.flow, Flow(Tensors(0, 0, 1, 0), Tensors(2, 1, 0, 0)))

    def test_without_a_backward_all_are_taken_to_be_reached(self):
        frame = Frame(0)
        frame.outputs.plain = [Node(), Node()]
        self.assertEqual(frame.call(None).flow.outputs, Tensors(2, 2, 0, 0))

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
        self.assertEqual([call.read for call in frame.call(None).calls], [(2, 0)])

    def test_a_recomputed_region_has_the_tensors_of_its_recomputation(self):
        region = Frame(1, "reentrant")
        root = Frame(0)
        root.calls = [Frame(4), region]
        self.assertEqual(unfilled_regions(root), [region])
        again = Frame(1)
        again.outputs.plain = [Node()]
        region.take_recomputed(again)
        self.assertEqual(unfilled_regions(root), [])
        self.assertEqual(region.call(set()).flow.outputs, Tensors(1, 1))
        self.assertEqual(region.call(set()).checkpoint, "reentrant")


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

    def test_a_rank_that_was_cut_leaves_the_whole_cut(self):
        self.assertNotIn('{"end":true}', merged([self.part(0, 5)[:-1], self.part(1, 5)]))


if __name__ == "__main__":
    unittest.main()
