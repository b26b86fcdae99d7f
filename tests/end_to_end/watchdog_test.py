"""Ranks that hang, call wrong collectives or die within one: the run ends in seconds and names the rank and the call."""

import json
import os
import signal
import unittest
from unittest import mock

from support import EndToEnd, last_step, read_lines, until

DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 2,
           "fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                           "fsdp_transformer_layer_cls_to_wrap": "T5Block"}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}


class Watchdog(EndToEnd):
    def run_with(self, fault, *changes, share="0"):
        """Runs the job with a fault to its end; returns the outcome and the closing block."""
        with mock.patch.dict(os.environ, {"TRAINER_INJECT": fault, "TRAINER_SHARE_MEMORY": share}):
            run = self.start(self.job("output", LONG, *changes))
        run.wait()
        self.screen = run.err
        outcome = json.loads((self.folder / "output/outcome.json").read_text())
        self.assertEqual(run.code, outcome["code"])
        self.assert_nothing_runs()
        block = run.err[run.err.rindex("trainer: "):]
        self.assertLessEqual(len(block.strip().splitlines()), 6, block)
        return outcome, block

    def check_differs(self, fault, *changes, **more):
        outcome, block = self.run_with(fault, *changes, **more)
        self.assertEqual(outcome["code"], 1, block)
        self.assertIn(outcome["step"], (3, 4), block)  # the diverging rank may reach the next step first
        self.assertIn("ranks 0 and 1 called different collectives", block)
        for rank in (0, 1):
            self.assertRegex(block, rf"rank {rank} \(step [34], \w[\w ]+\): .+ among all ranks")
        self.assertIn("please report", block)
        self.assertEqual([rank["rank"] for rank in outcome["ranks"]], [0, 1])
        return block

    def test_a_straggler_is_reported_at_its_begin_and_end(self):
        steps = {"training": {"max_steps": 70}, "logging": {"logging_steps": 10}}
        for strategy in (DATA_PARALLEL, SHARDED):
            name = strategy["distributed_type"]
            with mock.patch.dict(os.environ, {"TRAINER_INJECT": "slow:rank=1,step=3,seconds=0.2,times=30"}):
                run = self.launch(self.job(name, LONG, strategy, steps))
            # A busy machine may slow down other ranks too, so only rank 1 is checked.
            told = [line for line in read_lines(self.folder / name) if "straggler" in line and line["rank"] == 1]
            self.assertEqual([(line["straggler"], line["machine"]) for line in told[:2]], [("slow", 0), ("over", 0)],
                             run.err)
            self.assertGreater(told[0]["factor"], 1.5)
            self.assertLess(told[0]["step"], told[1]["step"])
            self.assertIn("rank 1 slows down all other ranks", run.err)
            self.assertIn("rank 1 is as fast as the others again", run.err)

    def test_a_rank_that_skips_a_collective(self):
        block = self.check_differs("skip:rank=1,step=3", SHARDED)
        self.assertRegex(block, r"rank 0 .*: all-gather .*\(the root\)")
        self.assertRegex(block, r"rank 1 .*: all-gather .*\(encoder.block.0\)")

    def test_a_rank_that_skips_a_barrier(self):
        self.check_differs("skip:rank=1,step=3", SHARDED, share="1")

    def test_a_rank_that_skips_a_collective_under_ddp(self):
        self.check_differs("skip:rank=1,step=3", DATA_PARALLEL)

    def test_a_rank_that_skips_a_collective_in_shared_memory(self):
        self.check_differs("skip:rank=1,step=3", DATA_PARALLEL, share="1")

    def test_a_rank_that_calls_another_size_in_shared_memory(self):
        self.check_differs("size:rank=1,step=3", DATA_PARALLEL, share="1")

    def test_a_rank_that_calls_another_size(self):
        self.check_differs("size:rank=1,step=3", SHARDED)

    def test_a_rank_that_calls_another_collective(self):
        self.assertIn("barrier", self.check_differs("other:rank=1,step=3", SHARDED))

    def test_the_diverging_rank_of_three_is_named(self):
        outcome, block = self.run_with("size:rank=2,step=3", SHARDED, {"num_processes": 3})
        self.assertEqual((outcome["code"], outcome["rank"]), (1, 2), block)

    def test_a_stopped_rank(self):
        outcome, block = self.run_with("stop:rank=1,step=3", SHARDED)
        self.assertEqual((outcome["code"], outcome["rank"], outcome["step"]), (6, 1, 3), block)
        self.assertRegex(block, r"rank 1, step 3 \(forward and backward\): its process has not run for 1\d s")
        self.assertIn("SIGSTOP", block)
        self.assertRegex(block, r"rank 0 waits in all-gather \d+ of \d+ \w+ among all ranks \(\S+")
        self.assertTrue(outcome["ranks"][0]["waits"])
        self.assertGreater(outcome["ranks"][1]["seconds_without_beat"], 5)
        self.assertRegex(self.screen, r"the stack of rank 1, innermost first:(\n  .+)+\n  trainer::train::Trainer::run")

    def test_a_rank_killed_within_an_all_gather(self):
        outcome, block = self.run_with("kill:rank=1,step=3", SHARDED)
        self.assertEqual((outcome["code"], outcome["rank"], outcome["step"]), (137, 1, 3), block)
        self.assertRegex(block, r"during all-gather \d+ of \d+ \w+ among all ranks \(\S+")
        self.assertTrue(outcome["ranks"][1]["unit"])

    def test_a_slow_rank_is_not_a_failure(self):
        with mock.patch.dict(os.environ, {"TRAINER_INJECT": "slow:rank=1,step=3,seconds=4"}):
            run = self.start(self.job("output", SHARDED))
        self.assertEqual(run.wait().code, 0, run.err)
        self.assertEqual(last_step(self.folder / "output"), 12)

    def test_a_rank_that_does_not_arrive_in_time(self):
        outcome, block = self.run_with("slow:rank=1,step=3,seconds=120", SHARDED, {"training": {"ddp_timeout": 4}})
        self.assertEqual((outcome["code"], outcome["rank"], outcome["step"]), (6, 1, 3), block)
        self.assertIn("rank 0 waits in all-gather", block)

    def test_a_rank_that_hangs_is_named_and_the_run_is_restarted(self):
        """Its process still beats; the launcher detects the hang by the usual duration of updates."""
        output = self.folder / "output"
        steps = {"training": {"max_steps": 170}, "checkpoint": {"save_steps": 50}, "max_restarts": 1}
        self.launch(self.job("expected", LONG, SHARDED, steps))
        with mock.patch.dict(os.environ, {"TRAINER_INJECT": "slow:rank=1,step=160,seconds=100000"}):
            run = self.start(self.job("output", LONG, SHARDED, steps))
        until(lambda: last_step(output) == 159)
        # 30 seconds are guaranteed; the wait allows twice as long, including the rest of the run.
        self.assertEqual(run.wait().code, 0, run.err)
        self.assertRegex(run.err, r"rank 1, step 160 \(forward and backward\): it hangs: no progress for [23]\d s, and an "
                                  r"update usually takes \d[.\d]* s\ntrainer: restart 1 of 1, from .*checkpoint-150")
        self.assertRegex(run.err, r"the stack of rank 1, innermost first:(\n  .+)+\n  trainer::train::Trainer::run")
        self.assert_same_run(output, self.folder / "expected")

    def test_quit_shows_where_the_ranks_are(self):
        run = self.start(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(run.pid, signal.SIGQUIT)
        until(lambda: "where the ranks are" in run.err)
        self.assertRegex(run.err, r"rank 1 \(step \d+, .*\): (waits in|computes) ")
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)


if __name__ == "__main__":
    unittest.main()
