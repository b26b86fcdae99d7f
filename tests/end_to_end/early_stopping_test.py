"""A run that no longer improves ends early, and again at the same update after a resume."""

import json
import shutil
import unittest

from support import EndToEnd, last_step

RANKS = {"distributed_type": "MULTI_CPU", "num_processes": 2}
STUCK = {"training": {"max_steps": 12, "learning_rate": 1e-30}, "checkpoint": {"save_steps": 1},
         "evaluation": {"eval_steps": 2, "early_stopping_patience": 2}}


class EarlyStopping(EndToEnd):
    def evaluations(self, output):
        """The steps of the evaluations, in the file's order."""
        lines = (self.folder / output / "metrics.jsonl").read_text().splitlines()
        return [record["step"] for record in map(json.loads, lines) if "eval_loss" in record]

    def test_a_run_that_is_stuck_ends(self):
        for name, changes in (("one", {}), ("two", RANKS)):
            with self.subTest(name):
                run = self.launch(self.job(name, STUCK, changes))
                self.assertIn("stopping after update 6: eval_loss has not improved in 2 evaluations", run.out + run.err)
                self.assertIn("done: 6 steps", run.out + run.err)
                self.assertEqual(self.evaluations(name), [2, 4, 6])
                self.assertTrue((self.folder / name / "model.safetensors").exists())

    def test_a_resumed_run_ends_at_the_same_update(self):
        self.launch(self.job("whole", STUCK))
        shutil.copytree(self.folder / "whole", self.folder / "cut", symlinks=True)
        for step in (5, 6):
            shutil.rmtree(self.folder / f"cut/checkpoint-{step}")
        self.launch(self.job("cut", STUCK))
        self.assert_same_run(self.folder / "cut", self.folder / "whole")
        self.assertEqual(self.evaluations("cut"), [2, 4, 6])
        self.launch(self.job("cut", STUCK))  # it has ended
        self.assertEqual((last_step(self.folder / "cut"), self.evaluations("cut")), (6, [2, 4, 6]))

    def test_patience_is_not_needed_while_it_improves(self):
        run = self.launch(self.job("output", {"training": {"max_steps": 8},
                                              "evaluation": {"eval_steps": 2, "early_stopping_patience": 1}}))
        self.assertIn("done: 8 steps", run.out + run.err)

    def test_the_first_evaluation_is_before_the_first_update(self):
        config = self.job("output", {"training": {"max_steps": 2},
                                     "evaluation": {"eval_steps": 1, "eval_on_start": True}})
        self.launch(config)
        self.assertEqual(self.evaluations("output"), [0, 1, 2])

    def test_the_keys_of_transformers(self):
        stuck = {**STUCK, "evaluation": {"eval_steps": 2},
                 "training": {**STUCK["training"], "early_stopping_patience": 2, "eval_on_start": True}}
        self.launch(self.job("output", stuck))
        self.assertEqual(self.evaluations("output"), [0, 2, 4, 6])


if __name__ == "__main__":
    unittest.main()
