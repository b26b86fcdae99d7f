"""Models of every family as users run them: strategies agree, a stopped run resumes, and saved models load again."""

import json
import shutil
import unittest

from support import EndToEnd, merged, read_lines, results, until

LLAMA = {"model_type": "llama", "vocab_size": 420, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
GPT2 = {"model_type": "gpt2", "vocab_size": 420, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}
BERT = {"model_type": "bert", "vocab_size": 420, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
        "intermediate_size": 48, "max_position_embeddings": 128}
FSDP = {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {"fsdp_version": 1}}
DDP = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SUBSET = {"training": {"max_steps": 6}, "checkpoint": {"save_steps": 3}, "evaluation": {"eval_steps": 0}}


class Families(EndToEnd):
    def job(self, output, *changes):
        """The job without the tiny T5, which `changes` replace."""
        return super().job(output, {"model": {"config": None}, "data": {"max_source_length": None}}, *changes)

    def check_strategies(self, *changes):
        """One rank, DDP and FSDP give the same losses; a run resumed from step 3 equals the whole run bit for bit."""
        for name, change in (("one", {}), ("ddp", DDP), ("fsdp", FSDP)):
            ranks = change.get("num_processes", 1)
            self.launch(self.job(name, SUBSET, change, *changes,
                                 {"training": {"per_device_train_batch_size": 4 // ranks, "global_batch_size": 4}}))
        expected = [line["loss"] for line in read_lines(self.folder / "one") if "loss" in line]
        self.assertEqual(len(expected), 6)
        for name in ("ddp", "fsdp"):
            losses = [line["loss"] for line in read_lines(self.folder / name) if "loss" in line]
            for mine, theirs in zip(losses, expected, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5 * abs(theirs))
        whole = results(self.folder / "fsdp")
        shutil.copytree(self.folder / "fsdp", self.folder / "again")
        shutil.rmtree(self.folder / "again/checkpoint-6")
        self.launch(self.job("again", SUBSET, FSDP, *changes,
                             {"training": {"per_device_train_batch_size": 2, "global_batch_size": 4}}))
        self.assertEqual(results(self.folder / "again"), whole)
        return self.folder / "fsdp"

    def test_llama(self):
        output = self.check_strategies({"model": {"config": LLAMA}, "data": {"task": "causal_lm", "max_length": 48}})
        self.assertEqual(json.loads((output / "config.json").read_text())["model_type"], "llama")
        # Another run starts from the saved model.
        self.launch(self.job("tuned", SUBSET, {"model": {"config": None, "path": str(output)}, "lora": {"r": 4},
                                               "data": {"task": "causal_lm"}}))
        self.assertLess(read_lines(self.folder / "tuned")[0]["loss"], read_lines(output)[0]["loss"])

    def test_gpt2_with_dropout_and_texts_in_groups(self):
        self.check_strategies({"model": {"config": GPT2},
                               "data": {"task": "causal_lm", "source": "{sentence} {label}", "target": "", "group_texts": True,
                                        "max_length": 40, "max_samples": 200}})

    def test_bert(self):
        output = self.check_strategies({"model": {"config": BERT}, "data": {"task": "sequence_classification"}})
        self.assertIn("eval_accuracy", read_lines(output)[-1])

    def test_integer_classes(self):
        """Classes are sorted as numbers, as `check` prints them; a checkpoint keeps its own order."""
        lines = self.write("numbers.txt", "".join(f"report {i} of the day@{i % 11}\n" for i in range(66)))
        data = {"task": "sequence_classification", "train": {"path": str(lines)}, "max_samples": None}
        in_order = [str(i) for i in range(11)]
        config = self.job("output", SUBSET, {"model": {"config": BERT}, "data": data})
        checked = self.trainer("check", "--config_file", config).wait()
        self.assertIn("11 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10\n", checked.out, checked.err)
        self.launch(config)
        names = json.loads((self.folder / "output/config.json").read_text())["id2label"]
        self.assertEqual([names[str(i)] for i in range(11)], in_order)
        tuned = self.job("tuned", SUBSET, {"model": {"config": None, "path": str(self.folder / "output")}, "data": data,
                                           "lora": {"r": 2}})
        self.launch(tuned)
        manifest = json.loads((self.folder / "tuned/checkpoint-6/manifest.json").read_text())
        self.assertEqual(manifest["classes"], in_order)
        resumed = self.job("output", SUBSET, {"model": {"config": BERT}, "data": {**data, "labels": in_order[::-1]}})
        self.assertIn("was saved with the classes 0, 1, 2", self.launch(resumed, code=2).err)

    def test_a_pre_trained_body_gets_a_new_head(self):
        self.launch(self.job("base", SUBSET, {"model": {"config": LLAMA}, "data": {"task": "causal_lm"}}))
        run = self.launch(self.job("classes", SUBSET, {"model": {"config": None, "path": str(self.folder / "base")},
                                                       "data": {"task": "sequence_classification"}}))
        self.assertEqual(run.err.count("missing weights are initialized from the seed: score.weight"), 1, run.err)
        self.assertIn("eval_accuracy", read_lines(self.folder / "classes")[-1])

    def test_a_name_of_the_hub(self):
        self.launch(self.job("base", SUBSET, {"model": {"config": LLAMA}, "data": {"task": "causal_lm"}}))
        model = self.shared / "hub/models--somebody--tiny"
        (model / "refs").mkdir(parents=True)
        (model / "refs/main").write_text("abc")
        shutil.copytree(self.folder / "base", model / "snapshots/abc")
        job = {"model": {"config": None, "path": "somebody/tiny"}, "tokenizer": None, "data": {"task": "causal_lm"}}
        self.launch(self.job("tuned", SUBSET, job))
        refused = self.launch(self.job("absent", SUBSET, merged(job, {"model": {"path": "somebody/other"}})), code=3)
        self.assertIn("hf download somebody/other", refused.err)

    def test_batches_by_tokens(self):
        """Batches by tokens and by samples give the same losses: they only assign samples to ranks differently."""
        causal = {"model": {"config": LLAMA}, "data": {"task": "causal_lm"}}
        by = {"samples": {"per_device_train_batch_size": 8}, "tokens": {"max_tokens": 64}}
        for name, training in by.items():
            self.launch(self.job(name, SUBSET, DDP, causal, {"training": merged(training, {"global_batch_size": 16})}))
        lines = {name: [line for line in read_lines(self.folder / name) if "loss" in line] for name in by}
        for mine, theirs in zip(lines["tokens"], lines["samples"], strict=True):
            self.assertAlmostEqual(mine["loss"], theirs["loss"], delta=1e-5 * theirs["loss"])
            self.assertEqual(mine["order_digest"], theirs["order_digest"])
        mean = {name: sum(line["efficiency"] for line in lines[name]) / len(lines[name]) for name in by}
        for name in by:
            self.assertGreater(mean[name], 0.95, name)

    def test_a_batch_that_fits_stays(self):
        causal = {"model": {"config": LLAMA}, "data": {"task": "causal_lm", "max_length": 100},
                  "training": {"per_device_train_batch_size": 8, "auto_find_batch_size": True, "max_steps": 3}}
        for name, change in (("ddp", DDP), ("fsdp", FSDP)):
            self.launch(self.job(name, causal, change))
            self.assertIn("per_device_train_batch_size: 8",
                          (self.folder / name / "config.resolved.yaml").read_text())


class Preparation(EndToEnd):
    """Tokenization runs once, before the ranks start, and is safe to kill at any time."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "prepared"
        self.text = self.write("many.txt", "".join(f"the report number {i} says that all is {'well' if i % 3 else 'ill'}@"
                                                   f"{'same' if i % 2 else 'better'}\n" for i in range(60_000)))
        self.data = {"data": {"train": {"path": str(self.text)}, "cache_dir": str(self.cache), "max_samples": 0,
                              "validation": None},
                     "training": {"max_steps": 1}, "evaluation": None}

    def stores(self):
        return [path for path in self.cache.iterdir() if path.is_dir() and path.name != "hashes"
                and not path.name.startswith(".")]

    def test_a_kill_in_the_middle(self):
        run = self.start(self.job("killed", self.data))
        until(lambda: self.cache.exists() and any(path.name.endswith(".partial") for path in self.cache.iterdir()))
        run.kill()
        self.assert_nothing_runs()
        self.assertEqual(self.stores(), [])
        self.launch(self.job("whole", self.data))
        self.assertEqual(len(self.stores()), 1)
        self.assertEqual([path.name for path in self.cache.iterdir() if path.name.endswith(".partial")], [])

    def test_two_launches_at_once(self):
        runs = [self.start(self.job(name, self.data)) for name in ("one", "two")]
        for run in runs:
            self.assertEqual(run.wait().code, 0, run.out + run.err)
        self.assertEqual(len(self.stores()), 1)
        self.assertEqual(results(self.folder / "one"), results(self.folder / "two"))

    def test_bad_records_are_skipped_and_reported(self):
        with open(self.text, "a") as file:
            file.write("no delimiter here\n@empty\n")
        refused = self.launch(self.job("error", self.data), code=3)
        self.assertIn("many.txt:60001", refused.err)
        self.assertFalse((self.folder / "error").exists())
        told = self.launch(self.job("skip", self.data, {"data": {"train": {"on_bad_sample": "skip"}}}))
        self.assertIn("many.txt:60001", told.err)


if __name__ == "__main__":
    unittest.main()
