"""`trainer checkpoint now`, asked at any moment, by several at once and on a busy machine: each time one whole checkpoint
more or a clear answer, and the run does not notice."""

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
        """The checkpoint that the answer names, which is whole."""
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

    def check_whole(self, output, count):
        """All of `count` checkpoints, by every byte."""
        verified = subprocess.run([TRAINER, "checkpoint", "verify", output], capture_output=True, text=True, check=False)
        self.assertEqual((verified.returncode, verified.stdout.count("whole")), (0, count),
                         verified.stdout + verified.stderr)

    def check_one_each(self, run, output, requests):
        """One after the other, each brings one checkpoint, of the step that was under way or the next ones."""
        for number in range(1, requests + 1):
            before = last_step(output)
            step = self.saved(self.ask(output))
            self.assertGreaterEqual(step, before)
            self.assertEqual(len(self.steps(output)), number)
        self.stop(run)
        count = len(self.steps(output))
        self.assertIn(count, (requests, requests + 1))  # the stop saves too, if a step came between
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
        """Most of the time goes into evaluations."""
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS, SHARDED,
                                  {"evaluation": {"eval_steps": 1, "metrics": ["loss", "accuracy"], "generate": True}}))
        until(lambda: last_step(output) >= 1)
        self.check_one_each(run, output, 5)

    def test_while_saving(self):
        """Saves of the run's own are under way all the time: the answer names one that was begun later."""
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
        """The last checkpoint is the answer, or there was time for one more."""
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

    def test_the_run_does_not_notice(self):
        """Thirty updates with saves on request and without are the same, bit for bit."""
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
        """Machine 0 is asked; the ranks of both save."""
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

    def test_one_that_does_not_wait(self):
        output = self.folder / "output"
        run = self.start(self.job("output", ENDLESS))
        until(lambda: last_step(output) >= 1)
        self.assertIn("was asked to save", self.answer(self.ask(output, "--timeout", "0")))
        until(lambda: self.steps(output))
        os.kill(run.ranks()[0], signal.SIGSTOP)  # nobody answers
        try:
            told = self.answer(self.ask(output, "--timeout", "0.2"), code=4)
        finally:
            os.kill(run.ranks()[0], signal.SIGCONT)
        self.assertIn("has not saved within 0.2 s", told)
        self.stop(run)


if __name__ == "__main__":
    unittest.main()
