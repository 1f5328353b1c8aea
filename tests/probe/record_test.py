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
from zero3probe.record.plans import Part, Plans, tree_of  # noqa: E402
from zero3probe.record.tape import RAISED, Pass, Recomputed, Tape, tensors_of  # noqa: E402
from zero3probe.record.writer import Lines  # noqa: E402
from zero3probe.run import Call, Flow, Tensors  # noqa: E402
from zero3probe.run_writer import call_item  # noqa: E402


class Node:
    """A node of autograd's graph."""

    def __init__(self, *following):
        self.next_functions = tuple((each, 0) for each in following)


class Handle:
    def __init__(self, loss):
        self._loss = loss

    def remove(self):
        self._loss.hook = None


class Loss(Node):
    """One that calls back when its backward runs."""
    hook = None

    def register_prehook(self, hook):
        self.hook = hook
        return Handle(self)


class Tensor:
    def __init__(self, node=None, requires_grad=True):
        self.grad_fn = node
        self.requires_grad = requires_grad


def tape_of(*items):
    """Calls: (module, inputs, outputs, calls...); a weight that is read: a list. Tensors as a call has them."""
    tape = Tape()
    for item in items:
        record(tape, item)
    return tape


def record(tape, item):
    if isinstance(item, list):
        tape.codes.append(tuple(item))
        return
    module, inputs, outputs = item[:3]
    tape.codes.append(module)
    if isinstance(module, int):
        tape.inputs(inputs, Tensor)
    else:
        tape.regions.append(Recomputed(1, module))
    for inner in item[3:]:
        record(tape, inner)
    if outputs is RAISED:
        tape.codes.append(RAISED)
    else:
        tape.outputs(outputs, Tensor)


def plan_of(tape):
    """The items of its plan."""
    tape.signature()
    return [call_item(part.call()) for part in tree_of(tape, Part(-1)).parts()]


class PlansTest(unittest.TestCase):
    def test_backward_comes_to_what_the_loss_leads_back_to(self):
        used, unused = Node(), Node()
        tape = tape_of((3, ([Tensor(unused)],), (Tensor(used), Tensor(unused))))
        tape.backward_begins([Node(Node(used), None)], None)
        self.assertEqual(plan_of(tape), [{"module": 3, "in": [0, 0, 1, 0], "out": [2, 1]}])
        self.assertEqual(tape.nodes, [])

    def test_autograd_is_asked_when_the_backward_runs_and_the_graph_is_let_go(self):
        used, unused = Node(), Node()
        loss = Loss()  # leads nowhere by itself: a walk would find nothing
        tape = tape_of((3, Tensor(None), (Tensor(used), Tensor(unused), Tensor(loss))))
        tape.backward_begins([loss], lambda node: node is used)
        self.assertIsNone(tape.reached)
        loss.hook()
        self.assertEqual((tape.reached, tape.nodes), ((True, True, False, True), []))
        self.assertEqual(plan_of(tape), [{"module": 3, "out": [3, 2]}])
        self.assertIsNone(loss.hook)

    def test_where_autograd_does_not_answer_its_graph_is_walked(self):
        def refuses(node):
            raise RuntimeError("no backward runs")
        for runs in (True, False):
            used = Node()
            loss = Loss(used)
            tape = tape_of((3, Tensor(used), Tensor(Node())))
            tape.backward_begins([loss], refuses)
            if runs:
                loss.hook()
            self.assertEqual(plan_of(tape), [{"module": 3, "out": [1, 0]}])
            self.assertEqual((loss.hook, tape.nodes), (None, []))

    def test_without_a_backward_all_are_taken_to_be_reached(self):
        tape = tape_of((0, (), (Tensor(Node()), Tensor(Node()))))
        self.assertEqual(plan_of(tape), [{"module": 0, "in": [0, 0], "out": [2, 2]}])

    def test_containers_count_apart(self):
        tape, plain, frozen = Tape(), Tensor(Node()), Tensor(None, False)
        tape.inputs((plain, (Tensor(Node()), None), [Tensor(Node())], {"a": Tensor(Node())}, frozen, 3), Tensor)
        tape.outputs([(plain,)], Tensor)
        tape.outputs((plain,), Tensor)
        tape.outputs(frozen, Tensor)
        self.assertEqual([tensors_of(code) for code in tape.codes], [(2, 2), (0, 1), (1, 0), (0, 0)])

    def test_equal_plans_are_written_once(self):
        lines = []
        plans = Plans(lines.append)
        usual = Flow(Tensors(1, 1), Tensors(1, 1))
        self.assertEqual(plans.number([Call(1, flow=usual)], usual), 0)
        self.assertEqual(plans.number([Call(2, flow=usual)], usual), 1)
        self.assertEqual(plans.number([Call(1, flow=usual)], usual), 0)
        self.assertEqual(lines, ['{"plan":0,"root":{},"calls":[1]}', '{"plan":1,"root":{},"calls":[2]}'])

    def test_tapes_make_one_plan_where_all_that_decides_is_equal(self):
        plans = Plans(lambda line: None)

        def number(direct=False, outputs=(Tensor(Node()),), loss=None, kind="reentrant", again=None):
            tape = tape_of((0, (), outputs, (kind, None, (), (1, (), ()))))
            if again is not None:
                tape.regions[0].passes.append(Pass(again, False))
            if loss is not None:
                tape.backward_begins([loss], None)
            return plans.of_tape(tape, direct)
        self.assertEqual([number(), number(outputs=(Tensor(),))], [0, 0])
        self.assertEqual(number(loss=Node()), 1)
        self.assertEqual(number(direct=True), 2)
        self.assertEqual(number(kind="non-reentrant"), 3)
        self.assertEqual(number(again=tape_of((1, Tensor(), ()))), 4)
        self.assertEqual(number(again=tape_of((1, Tensor(), Tensor()))), 5)
        self.assertEqual([number(), number(again=tape_of((1, Tensor(), ())))], [0, 4])

    def test_a_weight_that_is_read_twice_is_there_once(self):
        tape = tape_of((0, Tensor(), Tensor(), [2, 0], [2, 0]))
        self.assertEqual(plan_of(tape), [[0, [{"read": [2, 0]}]]])

    def test_a_call_that_does_not_return_is_there(self):
        tape = tape_of((0, Tensor(), RAISED, (1, Tensor(), RAISED)))
        tape.codes.append(2)
        self.assertEqual(plan_of(tape), [{"module": 0, "calls": [{"module": 1, "out": [0, 0]}], "out": [0, 0]},
                                         {"module": 2, "in": [0, 0], "out": [0, 0]}])


class RegionsTest(unittest.TestCase):
    """The body of module 1: its recomputation calls 2, which calls 3, and 4."""

    def plan(self, kind, *passes, first=((), ()), last=((), ()), out=(), loss=None):
        tape = tape_of((1, (), (), (kind, None, out, (2,) + first + ((3, (), ()),), [5, 0], (4,) + last)))
        tape.regions[0].passes += passes
        if loss is not None:
            tape.backward_begins([loss], None)
        return plan_of(tape)[0]["calls"][0]

    def test_a_reentrant_one_has_the_tensors_of_both_passes(self):
        output = Node()
        again = tape_of((2, Tensor(), (), (3, (), ())), (4, (), (Tensor(output), Tensor(Node()))))
        again.backward_begins([Node(output)], None)
        # what the region was given requires grad in the first pass too
        self.assertEqual(self.plan("reentrant", Pass(again, False), first=(Tensor(), ()), out=Tensor(Node())),
                         {"region": "reentrant", "calls": [
                             {"module": 2, "calls": [{"module": 3, "in": [0, 0], "out": [0, 0]}], "out": [0, 0],
                              "first_in": [1]},
                             {"read": [5, 0]}, {"module": 4, "in": [0, 0], "out": [2, 1]}]})

    def test_a_backward_around_a_reentrant_one_says_nothing_of_what_is_in_it(self):
        def inputs(kind):
            plan = self.plan(kind, first=(Tensor(Node()), ()), out=Tensor(Node()), loss=Node())
            return plan["calls"][0].get("in", [1, 1])
        self.assertEqual((inputs("reentrant"), inputs("non-reentrant")), ([1, 1], [1, 0]))

    def test_without_a_recomputation_there_are_the_tensors_of_the_first_pass(self):
        self.assertEqual(self.plan("reentrant", last=([Tensor()], ()), out=Tensor())["calls"][2],
                         {"module": 4, "in": [0, 0, 1, 1], "out": [0, 0], "first_in": [0, 1]})

    def test_where_the_recomputation_stops_is_in_the_call_that_did_not_return(self):
        stopped = Pass(tape_of((2, (), RAISED, (3, (), ()))), True)
        self.assertEqual(self.plan("non-reentrant", stopped)["calls"][0]["calls"][-1], {"stop": True})
        stopped = Pass(tape_of((2, (), (), (3, (), ()))), True)
        self.assertEqual([item.get("stop", False) for item in self.plan("non-reentrant", stopped)["calls"]],
                         [False, False, True, False])

    def test_one_that_runs_to_its_end_is_a_whole_recompute(self):
        again = Pass(tape_of((2, (), (), (3, (), ())), (4, (), ())), False)
        self.assertEqual(self.plan("non-reentrant", again)["region"], "whole-recompute")

    def test_another_recomputation_than_the_first_pass_is_taken_as_it_is(self):
        again = Pass(tape_of((7, Tensor(), Tensor())), False)
        self.assertEqual(self.plan("reentrant", again)["calls"], [7])


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
