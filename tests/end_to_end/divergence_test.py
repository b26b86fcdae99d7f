"""A diverged loss: the run stops, skips the update, or rolls back, depending on training.on_divergence."""

import unittest

from support import EndToEnd, read_lines

RANKS = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDS = {"distributed_type": "FSDP", "num_processes": 2}
TWELVE = {"training": {"max_steps": 12}, "evaluation": None, "data": {"validation": None}}
NAN_AT_7 = ("env", "TRAINER_INJECT=nan:rank=1,step=7")


class Diverged(EndToEnd):
    def run_job(self, strategy, choice, code=0, **training):
        config = self.job("output", TWELVE, strategy, {"training": {"on_divergence": choice, **training}})
        run = self.start(config, before=NAN_AT_7).wait()
        self.assertEqual(run.code, code, run.err)
        lines = read_lines(self.folder / "output")
        return run, [line for line in lines if "diverged" in line], [line for line in lines if "diverged" not in line]

    def test_stop(self):
        run, diverged, _ = self.run_job(RANKS, "stop", code=5)
        self.assertIn("the loss is nan", run.err)
        self.assertEqual(diverged, [])

    def check_skip(self, strategy):
        run, diverged, steps = self.run_job(strategy, "skip")
        self.assertEqual([(line["step"], line["diverged"]) for line in diverged], [(7, "skipped")])
        self.assertIn(None, (diverged[0]["loss"], diverged[0]["grad_norm"]))
        self.assertEqual([line["step"] for line in steps], list(range(1, 13)))
        self.assertIn("step 7: diverged", run.err)
        self.launch(self.job("undisturbed", TWELVE, strategy))
        alone = read_lines(self.folder / "undisturbed")
        same = [line["loss"] == step["loss"] for line, step in zip(alone, steps)]
        self.assertEqual(same, [True] * 6 + [False] * 6)

    def test_skip(self):
        self.check_skip(RANKS)

    def test_skip_of_shards(self):
        self.check_skip(SHARDS)

    def test_rollback(self):
        _, diverged, steps = self.run_job(SHARDS, "rollback", snapshot_steps=4)
        self.assertEqual([(line["step"], line["diverged"], line["back_to_step"]) for line in diverged],
                         [(7, "rolled back", 4)])
        self.assertEqual([line["step"] for line in steps], list(range(1, 13)))
        self.assertEqual(len({line["order_digest"] for line in steps}), len(steps))  # no sample repeats

    def test_a_run_that_keeps_diverging_ends(self):
        config = self.job("output", TWELVE, RANKS, {"training": {"learning_rate": 1e30, "on_divergence": "skip",
                                                                 "max_steps": 100}})
        run = self.launch(config, code=5)
        self.assertRegex(run.err, "(loss|gradient norm) is (nan|inf)")


if __name__ == "__main__":
    unittest.main()
