"""The table of shims: who needs what, and who is refused; and what an interpreter without DeepSpeed is told."""
import subprocess
import sys
import unittest
from pathlib import Path

PROBE = Path(__file__).resolve().parents[2] / "probe"
sys.path.insert(0, str(PROBE))
from zero3probe.compat import SHIMS, Unavailable, installed_release, shims_for  # noqa: E402


def names(release, has_gpu=False):
    return [shim.name for shim in shims_for(release, has_gpu)]


class Shims(unittest.TestCase):
    def test_none_from_0_14_5_on(self):
        for release in ((0, 14, 5), (0, 15, 2), (0, 19, 8), (1, 0, 0)):
            self.assertEqual(names(release), [])

    def test_none_with_a_gpu(self):
        self.assertEqual(names((0, 5, 10), has_gpu=True), [])
        self.assertEqual(names((0, 12, 6), has_gpu=True), [])

    def test_old_ones_get_what_they_need(self):
        self.assertEqual(names((0, 5, 10)), [shim.name for shim in SHIMS])
        self.assertNotIn("collections.Mapping", names((0, 6, 3)))
        self.assertIn("UtilsBuilder", names((0, 9, 4)))
        self.assertNotIn("UtilsBuilder", names((0, 9, 5)))
        self.assertIn("torch.cuda", names((0, 14, 4)))

    def test_every_shim_is_of_releases_that_are_known(self):
        for shim in SHIMS:
            self.assertIn(shim, shims_for(shim.first, False))
            self.assertIn(shim, shims_for(shim.last, False))

    def test_a_release_that_nobody_knows_is_refused(self):
        for release in ((0, 12, 6), (0, 13, 1), (0, 3, 15)):
            with self.assertRaisesRegex(Unavailable, "is not known to run without a GPU"):
                shims_for(release, False)
        with self.assertRaisesRegex(Unavailable, r"0\.3\.10 has no ZeRO-3: that came with 0\.3\.12"):
            shims_for((0, 3, 10), True)

    def test_an_interpreter_without_deepspeed_is_told(self):
        serve = ("import sys, runpy; sys.path.insert(0, %r); sys.argv[1:] = ['serve']; "
                 "runpy.run_module('zero3probe', run_name='__main__')" % str(PROBE))
        done = subprocess.run([sys.executable, "-S", "-E", "-c", serve], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual((done.returncode, done.stdout), (5, ""))
        self.assertEqual(done.stderr, "zero3probe: there is no DeepSpeed in %s\n" % sys.executable)


class Release(unittest.TestCase):
    def test_is_read_without_importing(self):
        try:
            self.assertEqual(len(installed_release()), 3)
        except Unavailable:
            pass
        self.assertNotIn("deepspeed", sys.modules)


if __name__ == "__main__":
    unittest.main()
