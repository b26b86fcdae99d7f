"""max_restarts: dead ranks are restarted, and the run's results are bitwise equal to those of an undisturbed run."""

import json
import os
import signal
import subprocess
import unittest

from support import TRAINER, EndToEnd, last_step, until

DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 3}
RESTARTS = {"max_restarts": 5}
MEDIUM = {"training": {"max_steps": 60}, "evaluation": {"eval_steps": 20}, "checkpoint": {"save_steps": 5}}


class Restarted(EndToEnd):
    def outcome(self):
        return json.loads((self.folder / "output/outcome.json").read_text())

    def check(self, strategy, signals):
        """`signals`: (rank, step, signal): which rank gets which signal after which step."""
        output = self.folder / "output"
        self.launch(self.job("expected", MEDIUM, strategy))
        run = self.start(self.job("output", MEDIUM, strategy, RESTARTS))
        hit = 0
        for rank, step, number in signals:
            until(lambda: last_step(output) >= step or run.ended())
            pid = run.ranks().get(rank)
            if pid is None:
                continue
            os.kill(pid, number)
            hit += 1
            until(lambda: run.ended() or f"restart {hit} of 5" in run.err)
        self.assertEqual(run.wait().code, 0, run.err)
        self.assertGreater(hit, 0)
        self.assert_same_run(output, self.folder / "expected")
        self.assertEqual(self.outcome()["restarts"], hit, run.err)
        self.assertIn("killed by signal 9 (SIGKILL)\ntrainer: restart 1 of 5, from ", run.err)
        self.assert_nothing_runs()

    def test_killed_copies(self):
        self.check(DATA_PARALLEL, [(0, 7, signal.SIGKILL), (1, 23, signal.SIGSEGV)])

    def test_killed_shards(self):
        self.check(SHARDED, [(2, 3, signal.SIGKILL), (0, 31, signal.SIGKILL)])

    def test_a_recurring_failure_ends_the_run(self):
        config = self.job("output", MEDIUM, DATA_PARALLEL, {"max_restarts": 9},
                          {"tokenizer": {"path": str(self.write("tokenizer.json", "{"))}})
        run = self.launch(config, code=3)
        self.assertNotIn("restart", run.err)

    def test_saving_on_request(self):
        output = self.folder / "output"
        run = self.start(self.job("output", {"training": {"max_steps": 100000}, "evaluation": None,
                                             "checkpoint": {"save_steps": 0}}, DATA_PARALLEL))
        until(lambda: last_step(output) >= 2)
        asked = subprocess.run([TRAINER, "checkpoint", "now", output], capture_output=True, text=True)
        self.assertEqual((asked.returncode, asked.stdout.split(";")[0]), (0, f"process {run.pid} was asked to save"))
        saved = until(lambda: [path for path in output.glob("checkpoint-*/manifest.json")])[0].parent
        step = int(saved.name.removeprefix("checkpoint-"))
        until(lambda: last_step(output) > step)  # it continues
        os.kill(run.pid, signal.SIGUSR1)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assertIn("saving after this step", run.err)
        self.assert_nothing_runs()
        asked = subprocess.run([TRAINER, "checkpoint", "now", output], capture_output=True, text=True)
        self.assertEqual(asked.returncode, 3, asked.stderr)
        self.assertIn("no run is using", asked.stderr)


if __name__ == "__main__":
    unittest.main()
