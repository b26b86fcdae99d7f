"""`trainer checkpoint now` at any moment, several times at once and on a busy machine: each request gives one more
complete checkpoint or a clear answer, and the run's results don't change."""

import fcntl
import json
import os
import pathlib
import signal
import subprocess
import sys
import unittest

from support import MARK, TRAINER, last_step, processes, results, until
from machines_test import Machines, free_port

SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
ENDLESS = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}


class Asked(Machines):
    def ask(self, output, *flags):
        return subprocess.Popen([TRAINER, "checkpoint", "now", output, *flags], env={**os.environ, MARK: self.mark},
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def answer(self, asked, code=0):
        out, err = asked.communicate(timeout=60)
        self.assertEqual(asked.returncode, code, out + err)
        return out + err

    def saved(self, asked):
        """The step of the checkpoint that the answer names, which is complete."""
        line = self.answer(asked).strip().splitlines()[-1]
        self.assertTrue(line.startswith("saved: "), line)
        folder = pathlib.Path(line.removeprefix("saved: "))
        self.assertTrue((folder / "manifest.json").exists(), line)
        return int(folder.name.removeprefix("checkpoint-"))

    def steps(self, output):
        return sorted(int(path.name.removeprefix("checkpoint-")) for path in output.glob("checkpoint-*"))

    def stop(self, run):
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assert_nothing_runs()

    def test_only_a_launcher_gets_the_signal(self):
        """A lock file may name any process, also one whose id was reused: the signal would end it."""
        output = self.folder / "forged"
        output.mkdir()
        bystander = subprocess.Popen(["sleep", "60"])
        self.addCleanup(bystander.wait)
        self.addCleanup(bystander.kill)
        with open(output / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(f"process {bystander.pid} on {os.uname().nodename}\n")
            lock.flush()
            answer = self.answer(self.ask(output, "--timeout", "0"), 4)
        self.assertIn(f"process {bystander.pid}, which the lock of", answer)
        self.assertIsNone(bystander.poll(), "the bystander was killed")

    def check_whole(self, output, count):
        """Verifies every byte of all `count` checkpoints."""
        verified = subprocess.run([TRAINER, "checkpoint", "verify", output], capture_output=True, text=True, check=False)
        self.assertEqual((verified.returncode, verified.stdout.count("intact")), (0, count),
                         verified.stdout + verified.stderr)

    def check_one_each(self, run, output, requests):
        """Sequential requests each give one checkpoint, of the current step or one of the next."""
        for number in range(1, requests + 1):
            before = last_step(output)
            step = self.saved(self.ask(output))
            self.assertGreaterEqual(step, before)
            self.assertEqual(len(self.steps(output)), number)
        self.stop(run)
        count = len(self.steps(output))
        self.assertIn(count, (requests, requests + 1))  # the stop saves too, if there was a step in between
        self.check_whole(output, count)

    def test_steps_on_a_busy_machine(self):
        output = self.folder / "output"
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"])
                for _ in range(2 * (os.cpu_count() or 1))]
        try:
            run = self.start(self.job("output", ENDLESS, SHARDED))
            until(lambda: last_step(output) >= 1)
            self.check_one_each(run, output, 8)
        finally:
            for process in busy:
                process.kill()
                process.wait()

    def test_evaluations(self):
        """Most of the time is spent in evaluations."""
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS, SHARDED,
                                  {"evaluation": {"eval_steps": 1, "metrics": ["loss", "accuracy"], "generate": True}}))
        until(lambda: last_step(output) >= 1)
        self.check_one_each(run, output, 5)

    def test_while_saving(self):
        """The run saves all the time: the answer names a save that began after the request."""
        for way in ("at once", "beside training"):
            with self.subTest(way):
                output = self.folder / way.replace(" ", "-")
                run = self.start(self.job(output.name, ENDLESS, SHARDED, {"checkpoint": {
                    "save_steps": 1, "save_total_limit": 3, "async_save": way == "beside training"}}))
                until(lambda: self.steps(output))
                for _ in range(5):
                    begun = max(self.steps(output))
                    self.assertGreater(self.saved(self.ask(output)), begun)
                self.stop(run)
                self.check_whole(output, len(self.steps(output)))

    def test_several_at_once(self):
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS, SHARDED))
        until(lambda: last_step(output) >= 1)
        for _ in range(3):
            before = self.steps(output)
            answers = {self.saved(asked) for asked in [self.ask(output) for _ in range(6)]}
            new = set(self.steps(output)) - set(before)
            self.assertLessEqual(answers, new)
            self.assertLessEqual(len(new), 6)
        self.stop(run)
        self.check_whole(output, len(self.steps(output)))

    def test_before_the_first_step_and_after_the_last(self):
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS, SHARDED))
        until(lambda: any("RANK" in environment for environment in processes(self.mark).values()))
        self.assertGreaterEqual(self.saved(self.ask(output)), 1)
        self.assertEqual(len(self.steps(output)), 1)
        self.stop(run)
        self.assertIn("no run is using", self.answer(self.ask(output), code=3))

    def test_a_run_that_ends_meanwhile(self):
        """The answer is the last checkpoint, or one more if there was time."""
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        run = self.start(self.job("output", SHARDED))
        until(lambda: last_step(output) >= 9 or run.ended())
        asked = self.ask(output)
        self.assertEqual(run.wait().code, 0, run.err)
        out, err = asked.communicate(timeout=60)
        if asked.returncode == 3:
            self.assertIn("no run is using", err)
        else:
            self.assertEqual(asked.returncode, 0, err)
            self.assertRegex(out, r"(saved:|its newest checkpoint is) .*checkpoint-\d+")
        self.assert_same_run(output, expected)

    def test_results_do_not_change(self):
        """Thirty updates with and without requested saves are bitwise equal."""
        longer = {"training": {"max_steps": 30}, "checkpoint": {"save_steps": 0}}
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED, longer))
        run = self.start(self.job("output", SHARDED, longer))
        until(lambda: last_step(output) >= 1 or run.ended())
        while not run.ended():
            self.ask(output).communicate(timeout=60)
        self.assertEqual(run.code, 0, run.err)
        self.assertIn(30, self.steps(output))
        self.assert_same_run(output, expected)
        self.check_whole(output, len(self.steps(output)))

    def test_two_machines(self):
        """The request goes to machine 0; the ranks of both machines save."""
        output = self.folder / "output"
        runs = self.start_both(self.job("output", ENDLESS, {**SHARDED, "num_processes": 4}), "127.0.0.1", free_port())
        until(lambda: last_step(output) >= 1)
        for number in range(1, 4):
            self.saved(self.ask(output))
            self.assertEqual(len(self.steps(output)), number)
        newest = output / f"checkpoint-{self.steps(output)[-1]}"
        self.assertEqual(json.loads((newest / "manifest.json").read_text())["world_size"], 4)
        os.kill(runs[0].pid, signal.SIGTERM)
        self.finish(runs, 143)
        self.check_whole(output, len(self.steps(output)))
        self.assertTrue(results(output))

    def test_requests_with_a_timeout(self):
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS))
        until(lambda: last_step(output) >= 1)
        self.assertIn("was asked to save", self.answer(self.ask(output, "--timeout", "0")))
        until(lambda: self.steps(output))
        os.kill(run.ranks()[0], signal.SIGSTOP)  # the run cannot save
        try:
            told = self.answer(self.ask(output, "--timeout", "0.2"), code=4)
        finally:
            os.kill(run.ranks()[0], signal.SIGCONT)
        self.assertIn("has not saved within 0.2 s", told)
        self.stop(run)


if __name__ == "__main__":
    unittest.main()
