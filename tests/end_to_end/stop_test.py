"""Signals to the launcher, and ranks that die: how a run ends, what it reports, and what it leaves behind."""

import json
import os
import random
import signal
import time
import unittest

from support import EndToEnd, last_step, listening_ports, until

DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}
MOMENTS = 8
# Long enough for a signal to arrive in the middle; only the step at which it arrives is random.
MEDIUM = {"training": {"max_steps": 150}, "evaluation": {"eval_steps": 50}, "checkpoint": {"save_steps": 0}}


class AskedToStop(EndToEnd):
    def check_resumes(self, signal_number, code, strategy):
        self.launch(self.job("expected", MEDIUM, strategy))
        expected, output = self.folder / "expected", self.folder / "output"
        config = self.job("output", MEDIUM, strategy)
        run = self.start(config)
        until(lambda: last_step(output) >= 5)
        os.kill(run.pid, signal_number)
        self.assertEqual(run.wait().code, code, run.err)
        step = last_step(output)
        self.assertLess(step, 150)
        self.assertTrue((output / f"checkpoint-{step}/manifest.json").exists())
        outcome = json.loads((output / "outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["step"]), (code, step))
        self.assertIn(f"checkpoint-{step}", run.err)
        self.assert_nothing_runs()
        self.launch(config)
        self.assert_same_run(output, expected)

    def test_sigterm(self):
        self.check_resumes(signal.SIGTERM, 143, SHARDED)

    def test_sigint(self):
        self.check_resumes(signal.SIGINT, 130, DATA_PARALLEL)

    def test_at_any_moment(self):
        """During tokenization, loading of weights, an update, a save, or an evaluation."""
        busy = {"training": {"max_steps": 40}, "evaluation": {"eval_steps": 10}, "checkpoint": {"save_steps": 7}}
        began = time.monotonic()
        self.launch(self.job("expected", busy, SHARDED, {"data": {"cache_dir": str(self.folder / "cache")}}))
        whole = time.monotonic() - began
        chance = random.Random(5)
        for number in range(MOMENTS):
            name = f"output-{number}"
            config = self.job(name, busy, SHARDED, {"data": {"cache_dir": str(self.folder / f"cache-{number}")}})
            run = self.start(config)
            time.sleep(chance.uniform(0, whole))
            sent = chance.choice((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP))
            run.kill_with(sent)
            if run.wait().code == -sent:  # it came before the program's first lines could prepare for it
                self.assertFalse((self.folder / name).exists(), run.err)
            else:
                self.assertIn(run.code, (0, 130, 143), run.err)
            self.assert_nothing_runs()
            self.launch(config)
            self.assert_same_run(self.folder / name, self.folder / "expected")

    def test_without_saving(self):
        config = self.job("output", LONG, {"checkpoint": {"save_on_signal": False}})
        run = self.start(config)
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assertEqual(list((self.folder / "output").glob("*checkpoint*")), [])

    def test_second_signal_does_not_wait(self):
        run = self.start(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        ranks = run.ranks()
        self.assertEqual(sorted(ranks), [0, 1])
        os.kill(ranks[1], signal.SIGSTOP)  # so that the first signal cannot be obeyed
        os.kill(run.pid, signal.SIGTERM)
        until(lambda: "once more to stop at once" in run.err)
        time.sleep(1.1)  # within one second it would count as the same request
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assertIn("not saving", run.err)
        self.assert_nothing_runs()


class RankDies(EndToEnd):
    def check(self, strategy, victim):
        output = self.folder / "output"
        run = self.start(self.job("output", LONG, strategy, {"checkpoint": {"save_steps": 2}}))
        until(lambda: last_step(output) >= 3)
        ranks = run.ranks()
        self.assertEqual(listening_ports([run.pid, *ranks.values()]), set())  # they communicate in shared memory
        os.kill(ranks[victim], signal.SIGKILL)
        self.assertEqual(run.wait().code, 137, run.err)
        self.assertRegex(run.err, rf"rank {victim}, step \d+ .*killed by signal 9 \(SIGKILL\)")
        self.assertLessEqual(len(run.err.strip().split("trainer: ")[-1].splitlines()), 6)
        outcome = json.loads((output / "outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["rank"], outcome["cause"]), (137, victim, "killed_by_SIGKILL"))
        self.assertIn("SIGKILL", outcome["message"])
        self.assertGreaterEqual(outcome["step"], 3)
        self.assert_nothing_runs()

    def test_one_of_two_copies(self):
        self.check(DATA_PARALLEL, 0)

    def test_one_of_two_shards(self):
        self.check(SHARDED, 1)

    def test_launcher(self):
        run = self.start(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        run.kill()
        self.assert_nothing_runs()


class FolderInUse(EndToEnd):
    def test_second_run_is_refused(self):
        config = self.job("output", LONG)
        first = self.start(config)
        until(lambda: last_step(self.folder / "output") >= 1)
        second = self.launch(config, code=4)
        self.assertIn("output folder in use", second.err)
        self.assertIn(str(first.pid), second.err)
        self.assertFalse(first.ended())
        first.kill()
        self.assertFalse((self.folder / "output/outcome.json").exists())


if __name__ == "__main__":
    unittest.main()
