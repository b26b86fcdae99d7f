"""`trainer eval`, and the metrics of evaluations during training."""

import json
import math
import unittest

from support import SAMPLES, EndToEnd, read_lines, snapshot

ALL = ["loss", "perplexity", "accuracy", "exact_match", "precision_macro", "recall_macro", "f1_macro", "f1_micro",
       "f1_weighted", "matthews_correlation", "rouge1", "rouge2", "rougeL", "bleu"]
MEASURES = {"evaluation": {"metrics": ALL, "generate": True}, "training": {"max_steps": 8}}


class Eval(EndToEnd):
    def eval(self, config, *words, code=0):
        run = self.trainer("eval", "--config_file", config, *words).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def test_a_run_measures_what_eval_measures_of_its_model(self):
        job = self.job("run", MEASURES, {"checkpoint": {"metric_for_best_model": "f1_macro"}})
        self.launch(job)
        last = [line for line in read_lines(self.folder / "run") if "eval_loss" in line][-1]
        predictions = self.folder / "again.jsonl"
        found = json.loads(self.eval(job, "--json", "--predictions", predictions).out)
        self.assertEqual(found["samples"], 12)
        for name in ALL:
            self.assertAlmostEqual(found["eval_" + name], last["eval_" + name], 5, name)
        self.assertAlmostEqual(found["eval_perplexity"], math.exp(found["eval_loss"]), 5)
        self.assertEqual(predictions.read_text(), (self.folder / "run" / "predictions.jsonl").read_text())
        self.assertTrue(any("eval_f1_macro" in json.loads(line) for line in
                            (self.folder / "run" / "metrics.jsonl").read_text().splitlines()))
        best = self.trainer("checkpoint", "list", self.folder / "run").wait().out
        self.assertIn("best f1_macro", best)

    def test_every_strategy_measures_the_same(self):
        job = self.job("run", MEASURES)
        self.launch(job)
        alone = json.loads(self.eval(job, "--json").out)
        others = {"ddp": {"distributed_type": "MULTI_CPU", "num_processes": 2},
                  "fsdp": {"distributed_type": "FSDP", "num_processes": 3},
                  "threads": {"distributed_type": "DATA_PARALLEL", "devices": ["cpu", "cpu"]},
                  # Training would be refused.
                  "batches": {"training": {"dataloader_drop_last": True, "per_device_train_batch_size": 100}}}
        for name, changes in others.items():
            with self.subTest(name):
                found = json.loads(self.eval(self.job("run", MEASURES, changes), "--json").out)
                self.assertEqual(found.keys(), alone.keys())
                for key, value in alone.items():
                    if key.startswith("eval_"):
                        self.assertLessEqual(abs(found[key] - value), 1e-5 * max(1, abs(value)), key)
                self.assertEqual(found["samples"], 12)

    def test_a_checkpoint_of_a_full_run_is_measured(self):
        job = self.job("run", {"distributed_type": "FSDP", "num_processes": 2})
        self.launch(job)
        lines = {line["step"]: line["eval_loss"] for line in read_lines(self.folder / "run") if "eval_loss" in line}
        before = snapshot(self.folder / "run")
        for step in (9, 12):
            found = json.loads(self.eval(job, "--json", "--model", self.folder / "run" / f"checkpoint-{step}").out)
            if step in lines:
                self.assertAlmostEqual(found["eval_loss"], lines[step], 5)
            else:
                self.assertNotAlmostEqual(found["eval_loss"], lines[12], 5)
        self.assertEqual(snapshot(self.folder / "run"), before)

    def test_a_classifier_has_a_table_of_confusions(self):
        bert = {"model_type": "bert", "vocab_size": 400, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                "intermediate_size": 32, "max_position_embeddings": 64}
        job = self.job("run", {"model": {"config": None}}, {
            "model": {"config": bert}, "data": {"task": "sequence_classification", "max_length": 64,
                                                "max_source_length": None, "max_target_length": None}})
        self.launch(job)
        found = json.loads(self.eval(job, "--json").out)
        table = found["confusion"]
        self.assertEqual(sum(map(sum, table["counts"])), 12)
        hits = sum(row[i] for i, row in enumerate(table["counts"]))
        self.assertAlmostEqual(hits / 12, found["eval_accuracy"], 6)
        text = self.eval(job).out
        for i, label in enumerate(table["labels"]):
            self.assertRegex(text, r"\n  %s +%s\n" % (label, " +".join(map(str, table["counts"][i]))))
        self.assertLessEqual(max(map(len, text.splitlines()[1:])), 80)

    def test_the_resolved_configuration_of_a_run_is_read_back_without_a_warning(self):
        adapter = {"model": {"config": None, "path": str(self.base_model())}, "tokenizer": None, "lora": {"r": 2}}
        tries = {"alone": {}, "ddp": {"distributed_type": "MULTI_CPU", "num_processes": 2},
                 "fsdp": {"distributed_type": "FSDP", "num_processes": 2, **adapter}}
        for name, changes in tries.items():
            with self.subTest(name):
                self.launch(self.job(name, changes, {"training": {"max_steps": 1}}))
                run = self.eval(self.folder / name / "config.resolved.yaml", "--json")
                self.assertNotIn("warning", run.err.lower())
                self.assertEqual(json.loads(run.out)["samples"], 12)

    def test_a_failure_says_nothing_of_the_folder_that_it_works_in(self):
        job = self.job("run", {"training": {"max_steps": 1}})
        self.launch(job)
        few = self.write("few.txt", "no delimiter here\n")
        run = self.eval(job, "--data", few, code=3)
        self.assertIn("few.txt:1", run.err)
        self.assertNotIn("kept:", run.err)
        self.assertNotIn("trainer-eval", run.err)

    def test_data_can_be_given(self):
        job = self.job("run", {"training": {"max_steps": 1}})
        self.launch(job)
        few = self.folder / "few.txt"
        few.write_text("".join(SAMPLES.read_text().splitlines(True)[:5]))
        self.assertEqual(json.loads(self.eval(job, "--json", "--data", few).out)["samples"], 5)

    def test_adapters_and_other_models_are_measured(self):
        base = {"model": {"config": None, "path": str(self.base_model())}, "tokenizer": None}
        job = self.job("run", base, {"lora": {"r": 4, "init_lora_weights": False}, "training": {"learning_rate": 0.05},
                                     "distributed_type": "FSDP", "num_processes": 2})
        self.launch(job)
        trained = json.loads(self.eval(job, "--json").out)
        last = [line for line in read_lines(self.folder / "run") if "eval_loss" in line][-1]
        self.assertAlmostEqual(trained["eval_loss"], last["eval_loss"], 4)
        self.assertEqual(json.loads(self.eval(job, "--json", "--model", self.folder / "run" / "checkpoint-12").out)["eval_loss"],
                         trained["eval_loss"])
        untrained = json.loads(self.eval(job, "--json", "--model", self.base_model()).out)
        self.assertNotAlmostEqual(untrained["eval_loss"], trained["eval_loss"], 4)
        table = self.eval(job, "--metrics", "loss", "exact_match").out
        self.assertRegex(table, r"run \(LoRA adapter on .*base\) on 12 validation samples\n  loss +\d.*\n  exact_match +\d")

    def test_mistakes_are_explained(self):
        job = self.job("run")
        self.assertIn("does not exist", self.eval(job, code=3).err)
        self.assertIn("has neither a model nor an adapter", self.eval(job, "--model", self.folder, code=3).err)
        self.assertIn("--metrics", self.eval(job, "--metrics", "los", code=2).err)
        alone = self.job("alone", {"data": {"validation": None}, "evaluation": None})
        self.assertIn("no validation samples", self.eval(alone, "--model", self.base_model(), code=2).err)


if __name__ == "__main__":
    unittest.main()
