"""Models of protocols, which spin runs in every order of events."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent


@unittest.skipUnless(shutil.which("spin") and shutil.which("cc"), "needs spin and a C compiler (tools/setup.sh)")
class Formal(unittest.TestCase):
    def explored(self, model, *options):
        """The number of states, and the number of assertions that failed."""
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["spin", *options, "-a", FOLDER / model], cwd=folder, check=True, capture_output=True)
            subprocess.run(["cc", "-O2", "-w", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c"], cwd=folder, check=True)
            run = subprocess.run(["./pan", "-E", "-m100000"], cwd=folder, check=True, capture_output=True, text=True)
        self.assertNotIn("search not completed" if "errors: 0" in run.stdout else "max search depth", run.stdout)
        found = {name: int(re.search(pattern, run.stdout)[1])
                 for name, pattern in (("states", r"(\d+) states, stored"), ("errors", r"errors: (\d+)"))}
        return found["states"], found["errors"]

    def test_succession_in_a_shared_folder_keeps_one_history(self):
        states, errors = self.explored("succession.pml")
        self.assertEqual(errors, 0)
        self.assertGreater(states, 100_000)

    def test_it_needs_its_order_and_its_checks(self):
        for mistake in ("LOADS_FIRST", "TRUSTS_LOCK"):
            with self.subTest(mistake):
                self.assertEqual(self.explored("succession.pml", f"-D{mistake}")[1], 1)

    def test_votes_without_a_shared_folder_keep_one_history(self):
        states, errors = self.explored("votes.pml", "-DEPOCHS=2")
        self.assertEqual(errors, 0)
        self.assertGreater(states, 100_000)

    def test_votes_need_their_rules(self):
        for mistake in ("UNWRITTEN", "IGNORES_VOTES", "ANY_HALF", "LATE", "AGREES_FIRST"):
            with self.subTest(mistake):
                self.assertEqual(self.explored("votes.pml", f"-D{mistake}")[1], 1)


if __name__ == "__main__":
    unittest.main()
