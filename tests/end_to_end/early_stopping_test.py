"""A run that no longer improves ends early, and again at the same update after a resume."""

import json
import shutil
import subprocess
import unittest

from support import TRAINER, EndToEnd, last_step

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


class BestModel(EndToEnd):
    """Training with a learning rate that grows ruins the model: the best checkpoint is an early one."""

    RUINED = {"training": {"max_steps": 8, "learning_rate": 5.0, "warmup_steps": 7, "max_grad_norm": 0.0},
              "checkpoint": {"save_steps": 2, "metric_for_best_model": "loss", "load_best_model_at_end": True},
              "evaluation": {"eval_steps": 2}}

    def weights(self, folder):
        """The exported weights of a checkpoint or an output folder."""
        path = self.folder / folder / "model.safetensors"
        if not path.exists():
            path = self.folder / "exported" / folder.replace("/", "-") / "model.safetensors"
            subprocess.run([TRAINER, "checkpoint", "export", self.folder / folder, path.parent], check=True,
                           capture_output=True)
        return path.read_bytes()

    def check(self, name, *changes):
        run = self.launch(self.job(name, self.RUINED, *changes))
        lines = map(json.loads, (self.folder / name / "metrics.jsonl").read_text().splitlines())
        losses = {record["step"]: record["eval_loss"] for record in lines if "eval_loss" in record}
        best = min(losses, key=losses.get)
        self.assertLess(best, 8, losses)
        self.assertIn(f"the model is that of checkpoint-{best}, which has the best loss", run.out + run.err)
        self.assertEqual(self.weights(name), self.weights(f"{name}/checkpoint-{best}"))
        self.assertNotEqual(self.weights(name), self.weights(f"{name}/checkpoint-8"))
        self.assertEqual(sorted(losses), [2, 4, 6, 8])

    def test_the_final_model_is_the_best(self):
        self.check("output")

    def test_of_shards(self):
        self.check("output", {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {"fsdp_version": 1}})

    def test_the_last_one_may_be_the_best(self):
        run = self.launch(self.job("output", self.RUINED, {"training": {"learning_rate": 0.01, "warmup_steps": 0}}))
        self.assertNotIn("the model is that of", run.out + run.err)
        self.assertEqual(self.weights("output"), self.weights("output/checkpoint-8"))

    def saved(self, name):
        return sorted(int(folder.name[11:]) for folder in (self.folder / name).glob("checkpoint-*"))

    def test_saving_only_the_best_and_the_last(self):
        self.check("output", {"checkpoint": {"save_strategy": "best"}})
        lines = map(json.loads, (self.folder / "output/metrics.jsonl").read_text().splitlines())
        losses = {record["step"]: record["eval_loss"] for record in lines if "eval_loss" in record}
        better = [step for step in losses if losses[step] <= min(losses[s] for s in losses if s <= step)]
        self.assertEqual(self.saved("output"), sorted({*better, 8}))
        self.assertLess(len(better), len(losses), "every evaluation was better: nothing is tested")

    def test_a_checkpoint_of_each_epoch(self):
        run = self.launch(self.job("output", {"training": {"num_train_epochs": 2, "max_steps": 0},
                                              "checkpoint": {"save_strategy": "epoch", "save_steps": 1},
                                              "evaluation": {"eval_steps": 0, "eval_delay": 2}}))
        lines = [json.loads(line) for line in (self.folder / "output/metrics.jsonl").read_text().splitlines()]
        total = last_step(self.folder / "output")
        self.assertEqual(self.saved("output"), [total // 2, total])
        self.assertEqual([record["step"] for record in lines if "eval_loss" in record], [total])
        self.assertIn("checkpoint.save_steps", run.out + run.err)


if __name__ == "__main__":
    unittest.main()
