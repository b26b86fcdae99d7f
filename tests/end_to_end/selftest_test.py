"""`trainer selftest`: every strategy gives the results of one rank, and resumes from checkpoints of the others, with one
process per rank."""

import subprocess
import unittest

import support


class Selftest(unittest.TestCase):
    def run_selftest(self, *arguments):
        return subprocess.run([support.TRAINER, "selftest", *arguments], capture_output=True, text=True)


class Pairwise(Selftest):
    def test_every_strategy_gives_the_results_of_one_rank(self):
        done = self.run_selftest("--num_processes", "4")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("match the results of one rank", done.stdout)
        for strategy in ("DATA_PARALLEL 3", "DDP 3", "FSDP FULL_SHARD 4", "FSDP HYBRID_SHARD 2x2", "TP 2 x FSDP 2", "PP 3", "TP 2 x PP 2"):
            self.assertIn(strategy, done.stdout)

    def test_sizes_drawn_by_a_seed(self):
        done = self.run_selftest("--random", "12", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("seed 7", done.stdout)

    def test_a_choice_of_no_cases_is_an_error(self):
        done = self.run_selftest("--only", "GPT-2 lora", "--num_processes", "2")
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"--only 'GPT-2 lora': none of the \d+ cases .* like 'T5 full one rank x1' or ")


class Resume(Selftest):
    """Some pairs of strategies; `trainer selftest --resume` tests all of them."""

    def test_pairs_drawn_by_a_seed(self):
        done = self.run_selftest("--resume", "--all", "--random", "40", "--seed", "7")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("40 cases on 4 ranks", done.stdout)
        self.assertIn("All 40 cases", done.stdout)
        self.assertIn("bit for bit", done.stdout)

    def test_chosen_by_name(self):
        done = self.run_selftest("--resume", "--only", "FSDP FULL_SHARD 2 -> TP 2", "--num_processes", "2")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("All 2 cases", done.stdout)  # by rows too


if __name__ == "__main__":
    unittest.main()
