"""Traces: whole under their name, or marked; failures and ranks that end early, as the lines say it."""
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "probe"))
from zero3probe import trace  # noqa: E402
from zero3probe.failure import failure_keys, where_is  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))


def raise_inside():
    raise ValueError("no\nway")


class TraceFile(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "trace.jsonl")

    def test_has_its_name_only_when_whole(self):
        out = trace.Output(self.path)
        out.write(trace.end())
        self.assertEqual(os.listdir(self.folder.name), ["trace.jsonl.partial"])
        out.close()
        self.assertEqual(os.listdir(self.folder.name), ["trace.jsonl"])
        with open(self.path, "rb") as file:
            self.assertEqual(file.read(), b'{"event":"end"}\n')

    def test_a_full_disk_is_told_and_leaves_what_was_written(self):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        self.addCleanup(signal.signal, signal.SIGXFSZ, ignored)
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, before)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        out = trace.Output(self.path)
        told = r"trace\.jsonl: File too large; what was recorded before is in .*\.partial, which ends in the middle"
        with self.assertRaisesRegex(trace.CannotWrite, told):
            for _ in range(20):
                out.write(trace.end())
        self.assertEqual(os.path.getsize(self.path + ".partial"), 100)
        self.assertFalse(os.path.exists(self.path))

    def test_what_is_no_file_is_left_alone(self):
        with self.assertRaisesRegex(trace.CannotWrite, "it is there and no regular file"):
            trace.Output(self.folder.name)

    def test_a_line_keeps_the_order_of_its_keys_and_its_letters(self):
        self.assertEqual(trace.line({"b": 1, "a": "ä"}), '{"b":1,"a":"ä"}\n'.encode())
        first = json.loads(trace.header("s", "0.15.2", 2, 0, {"torch": "2"}))
        self.assertEqual(" ".join(first), "format version scenario deepspeed ranks seed source")


class Failures(unittest.TestCase):
    def test_the_path_holds_the_functions_of_the_folder_but_for_taps(self):
        def tap():
            raise_inside()
        try:
            tap()
        except ValueError as error:
            found = failure_keys(error, HERE, {tap.__code__})
        self.assertEqual((found["exception"], found["text"]), ("ValueError", "no\nway"))
        self.assertEqual(found["path"][-1], "raise_inside")
        self.assertNotIn("tap", found["path"])

    def test_where_a_thread_is_names_the_module_and_the_functions(self):
        class Module:
            probe_name = "layers.0"
        ready, go = threading.Event(), threading.Event()

        def fetch_sub_module(sub_module):
            ready.set()
            go.wait()
        thread = threading.Thread(target=fetch_sub_module, args=(Module(),))
        thread.start()
        ready.wait()
        text = where_is(thread, HERE, set())
        go.set()
        thread.join()
        self.assertTrue(text.startswith("in fetch_sub_module"), text)
        self.assertTrue(text.endswith(" for module layers.0"), text)


if __name__ == "__main__":
    unittest.main()
