"""Ranks that communicate over MPI: the same results and outcomes as over Gloo, and nothing left behind."""

import json
import os
import pathlib
import shutil
import signal
import unittest
from unittest import mock

from support import MARK, EndToEnd, last_step, read_lines, results, until

MPI = {"training": {"ddp_backend": "mpi"}}
DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 3}
LONG = {"training": {"max_steps": 100000, "ddp_backend": "mpi"}, "evaluation": None, "checkpoint": {"save_steps": 0}}
SHARED_MEMORY = pathlib.Path("/dev/shm")


def seats():
    return set(SHARED_MEMORY.glob("trainer-mpi-*"))


@unittest.skipUnless(shutil.which("mpirun") and pathlib.Path(os.environ.get("TRAINER_BIN", "")).with_name(
    "libtrainer_mpi.so").exists(), "Open MPI is not installed")
class Mpi(EndToEnd):
    def setUp(self):
        super().setUp()
        self.seats_before = seats()
        # Of a build with a sanitizer: Open MPI has unloaded the plug-ins of which it never freed the memory, so that
        # lsan.supp can't name them.
        options = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), "detect_leaks=0")))
        patched = mock.patch.dict(os.environ, {"ASAN_OPTIONS": options})
        patched.start()
        self.addCleanup(patched.stop)

    def assert_nothing_is_left(self):
        self.assert_nothing_runs()
        until(lambda: not seats() - self.seats_before)

    def check_same_figures(self, strategy):
        self.launch(self.job("gloo", strategy))
        run = self.launch(self.job("mpi", strategy, MPI))
        self.assertNotIn("mpirun", run.err)
        gloo, mpi = (read_lines(self.folder / name) for name in ("gloo", "mpi"))
        self.assertEqual(len(gloo), len(mpi))
        for ours, theirs in zip(mpi, gloo):
            for key in ("loss", "grad_norm", "eval_loss"):
                if key in theirs:
                    self.assertAlmostEqual(ours[key] / theirs[key], 1, delta=1e-5, msg=key)
            self.assertEqual(ours.get("order_digest"), theirs.get("order_digest"))
        self.assert_nothing_is_left()

    def test_data_parallel_trains_as_over_gloo(self):
        self.check_same_figures(DATA_PARALLEL)

    def test_fsdp_trains_as_over_gloo(self):
        self.check_same_figures(SHARDED)

    def test_the_environment_of_the_ranks_has_no_secret(self):
        run = self.start(self.job("output", LONG, DATA_PARALLEL), before=("env", "TRAINER_SECRET=open-sesame"))
        until(lambda: last_step(self.folder / "output") >= 2)
        written = b"".join(path.read_bytes() for seat in seats() - self.seats_before for path in seat.iterdir()
                           if path.name.isdigit())
        self.assertIn(f"{MARK}={self.mark}".encode(), written)
        self.assertNotIn(b"open-sesame", written)
        run.kill_with(signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)

    def test_a_dead_rank_ends_the_run(self):
        run = self.start(self.job("output", LONG, DATA_PARALLEL))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(run.ranks()[1], signal.SIGKILL)
        self.assertEqual(run.wait().code, 137, run.err)
        self.assertRegex(run.err, r"rank 1, step \d+ .*killed by signal 9 \(SIGKILL\)")
        outcome = json.loads((self.folder / "output/outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["rank"]), (137, 1))
        self.assert_nothing_is_left()

    def test_sigterm_saves_and_the_run_resumes(self):
        medium = {"training": {"max_steps": 150}, "evaluation": {"eval_steps": 50}, "checkpoint": {"save_steps": 0}}
        self.launch(self.job("expected", medium, SHARDED, MPI))
        config = self.job("output", medium, SHARDED, MPI)
        run = self.start(config)
        until(lambda: last_step(self.folder / "output") >= 5)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assertLess(last_step(self.folder / "output"), 150)
        self.assert_nothing_is_left()
        self.launch(config)
        self.assertEqual(results(self.folder / "output"), results(self.folder / "expected"))

    def test_a_killed_launcher_leaves_nothing(self):
        run = self.start(self.job("output", LONG, DATA_PARALLEL))
        until(lambda: last_step(self.folder / "output") >= 2)
        run.kill()
        self.assert_nothing_is_left()

    def test_a_missing_mpirun_is_named(self):
        empty = self.folder / "empty"
        empty.mkdir()
        run = self.start(self.job("output", DATA_PARALLEL, MPI), before=["/usr/bin/env", f"PATH={empty}"]).wait()
        self.assertEqual(run.code, 4, run.err)
        self.assertIn("there is no mpirun", run.err)


if __name__ == "__main__":
    unittest.main()
