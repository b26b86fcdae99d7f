"""Training on preferences (dpo): against TRL's DPOTrainer, under every strategy, across kills, and its evaluation."""

import json
import math
import shutil
import struct
import unittest

from support import REPOSITORY, EndToEnd, last_step, merged, read_lines, results, until

GOLDEN = REPOSITORY / "tests/golden/preference_run"
REWARDS = ("chosen", "rejected", "margins", "accuracies")
SINGLE = {}
DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]}
DROPOUT = {"data": {"shuffle": True}, "training": {"dropout": True}}


class Preferences(EndToEnd):
    expected = json.loads((GOLDEN / "expected.json").read_text())

    def golden_job(self, output, case, *changes):
        """The run of TRL's that `case` names."""
        golden = self.expected["cases"][case]
        records = golden["records"]
        job = {"distributed_type": "NO", "use_cpu": True, "seed": 7, "output_dir": str(self.folder / output),
               "model": {"path": str(GOLDEN)}, "dpo": golden["dpo"],
               "data": {"train": {"path": str(GOLDEN / f"{records}.jsonl")},
                        "validation": {"path": str(GOLDEN / f"{records}.held_out.jsonl")},
                        "max_length": self.expected["max_length"], "shuffle": False},
               "training": {"per_device_train_batch_size": golden["per_device"], "per_device_eval_batch_size": 2,
                            "global_batch_size": self.expected["batch"], "max_steps": self.expected["updates"],
                            "learning_rate": golden["learning_rate"], "dropout": False},
               "evaluation": {"eval_steps": 100}, "checkpoint": {"save_steps": 2}, "logging": {"logging_steps": 1}}
        if records == "dialogues":
            job["data"]["dialogue"] = "messages"
        if golden.get("lora"):
            job["lora"] = {"path": str(GOLDEN / "adapter")}
        for change in changes:
            job = merged(job, change)
        return self.write(f"{output}.yaml", json.dumps(job, indent=1))

    def assert_close(self, found, expected, tolerance=1e-4):
        self.assertLessEqual(abs(found - expected), tolerance * max(0.1, abs(expected)))

    def assert_as_trl(self, output, case):
        golden = self.expected["cases"][case]
        lines = read_lines(self.folder / output)
        updates = [line for line in lines if "loss" in line]
        self.assertEqual(len(updates), len(golden["updates"]))
        for line, expected in zip(updates, golden["updates"]):
            with self.subTest(output=output, step=line["step"]):
                self.assert_close(line["loss"], expected["loss"])
                for name in REWARDS:
                    if name != "accuracies" or line["step"] > 1:  # before the first update, both rewards are 0
                        self.assert_close(line["rewards/" + name], expected[name])
        last = [line for line in lines if "eval_loss" in line][-1]
        self.assert_close(last["eval_loss"], golden["evaluation"]["loss"])
        for name in REWARDS:
            self.assert_close(last["eval_rewards/" + name], golden["evaluation"][name])

    def test_texts_are_learned_as_by_trl(self):
        self.launch(self.golden_job("run", "texts"))
        self.assert_as_trl("run", "texts")

    def test_replies_that_begin_with_their_prompt_are_learned_as_by_trl(self):
        self.launch(self.golden_job("run", "replies_alone"))
        self.assert_as_trl("run", "replies_alone")

    def test_dialogues_are_learned_by_an_adapter_as_by_trl(self):
        for case in ("dialogues", "dialogues_hinge"):
            self.launch(self.golden_job(case, case))
            self.assert_as_trl(case, case)

    def test_every_strategy_learns_as_trl(self):
        strategies = {"ddp": DATA_PARALLEL, "fsdp": {**SHARDED, "num_processes": 3},
                      "tensor": {**DATA_PARALLEL, "parallelism_config": {"parallelism_config_tp_size": 2}},
                      "zero": {"distributed_type": "DEEPSPEED", "num_processes": 2,
                               "deepspeed_config": {"zero_stage": 2}},
                      "threads": {"distributed_type": "DATA_PARALLEL", "devices": ["cpu", "cpu"]}}
        for name, strategy in strategies.items():
            for case in ("texts", "dialogues"):
                output = f"{name}-{case}"
                self.launch(self.golden_job(output, case, strategy))
                self.assert_as_trl(output, case)

    def test_a_new_adapter_starts_at_the_reference(self):
        self.launch(self.golden_job("run", "dialogues", {"lora": None}, {"lora": LORA}))
        first = read_lines(self.folder / "run")[0]
        self.assertAlmostEqual(first["loss"], math.log(2), 5)
        self.assertAlmostEqual(first["rewards/margins"], 0, 4)

    def check_killed(self, case, *changes):
        """Killed in the middle of an interval of the log, after a checkpoint, then resumed."""
        more = (DROPOUT, {"logging": {"logging_steps": 3}, "training": {"max_steps": 9}}, *changes)
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.golden_job("expected", case, *more))
        config = self.golden_job("output", case, *more)
        run = self.start(config)
        until(lambda: (output / "checkpoint-4").exists() or run.ended())
        run.kill()
        self.assertLess(last_step(output), 9)
        self.launch(config)
        self.assertIn("rewards/margins", results(output)[-2])
        self.assert_same_run(output, expected)
        reference = "preferences/reference.safetensors"
        self.assertEqual((output / reference).read_bytes(), (expected / reference).read_bytes())

    def test_a_killed_run_continues_with_the_same_bits(self):
        self.check_killed("texts", DATA_PARALLEL)

    def test_a_killed_adapter_run_continues_with_the_same_bits(self):
        self.check_killed("dialogues", SHARDED, {"lora": None}, {"lora": LORA})

    def reference_of(self, output):
        return self.folder / output / "preferences" / "reference.safetensors"

    def log_probs(self, output):
        """Of the training pairs, two numbers each; NaN for pairs that no run has needed."""
        content = self.reference_of(output).read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        begin, end = json.loads(content[8:8 + size])["train"]["data_offsets"]
        values = content[8 + size + begin:8 + size + end]
        return struct.unpack(f"<{len(values) // 8}d", values)

    def test_a_longer_run_computes_what_the_shorter_one_did_not_need(self):
        self.launch(self.golden_job("run", "texts", {"training": {"max_steps": 3}}))
        before = self.log_probs("run")
        self.assertEqual([math.isnan(value) for value in before], [False] * 24 + [True] * 8)  # 12 of the 16 pairs
        self.launch(self.golden_job("run", "texts"))
        after = self.log_probs("run")
        self.assertEqual(after[:24], before[:24])
        self.assertFalse(any(map(math.isnan, after)))
        self.launch(self.golden_job("whole", "texts"))
        for found, expected in zip(after, self.log_probs("whole")):
            self.assertAlmostEqual(found, expected, 4)  # not those of the trained weights

    def test_a_lost_reference_is_computed_by_the_model_that_the_run_started_from(self):
        self.launch(self.golden_job("run", "texts", {"training": {"max_steps": 5}}))
        before = self.reference_of("run").read_bytes()
        shutil.rmtree(self.reference_of("run").parent)
        self.launch(self.golden_job("run", "texts"))
        self.assertEqual([line["step"] for line in read_lines(self.folder / "run") if "loss" in line], [1, 2, 3, 4, 5, 6])
        self.assertEqual(self.reference_of("run").read_bytes(), before)

    def test_a_damaged_reference_is_named(self):
        self.launch(self.golden_job("run", "texts", {"training": {"max_steps": 2}}))
        reference = self.reference_of("run")
        damaged = bytearray(reference.read_bytes())
        damaged[-3] ^= 1
        reference.write_bytes(damaged)
        run = self.launch(self.golden_job("run", "texts"), code=3)
        self.assertIn("reference.safetensors: damaged", run.err)

    def eval(self, config, *words):
        run = self.trainer("eval", "--config_file", config, "--json", *words).wait()
        self.assertEqual(run.code, 0, run.out + run.err)
        return json.loads(run.out)

    def test_eval_measures_what_the_run_measured(self):
        for case in ("texts", "dialogues"):
            job = self.golden_job(case, case, SHARDED)
            self.launch(job)
            last = [line for line in read_lines(self.folder / case) if "eval_loss" in line][-1]
            found = self.eval(job)
            self.assertEqual(found["samples"], 6)
            for name in ("loss", *(f"rewards/{name}" for name in REWARDS)):
                self.assert_close(found["eval_" + name], last["eval_" + name], 1e-5)
            table = self.trainer("eval", "--config_file", job).wait().out
            self.assertRegex(table, r"\n  rewards/accuracies +[0-9.]+\n")
            with self.subTest("the start model is the reference"):
                start = self.eval(job, "--model", GOLDEN)
                self.assertAlmostEqual(start["eval_loss"], math.log(2), 6)
                self.assertAlmostEqual(start["eval_rewards/margins"], 0, 6)

    def test_the_best_checkpoint_is_that_of_the_highest_accuracy(self):
        self.launch(self.golden_job("run", "texts", {"checkpoint": {"metric_for_best_model": "rewards/accuracies"},
                                                     "evaluation": {"eval_steps": 2},
                                                     "logging": {"report_to": ["tensorboard"]}}))
        events = b"".join(file.read_bytes() for file in (self.folder / "run" / "tensorboard").iterdir())
        for name in REWARDS:
            for tag in (f"train/rewards/{name}", f"eval/rewards/{name}"):
                self.assertIn(tag.encode(), events)
        card = (self.folder / "run" / "README.md").read_text()
        self.assertIn('- "dpo"\n', card)
        self.assertIn("| `dpo.beta` | 0.3 |", card)
        best = self.trainer("checkpoint", "list", self.folder / "run").wait().out
        self.assertIn("best rewards/accuracies", best)
        page = self.trainer("report", self.folder / "run", "-o", self.folder / "page.html").wait()
        self.assertEqual(page.code, 0, page.err)
        self.assertIn("Pairs whose chosen reply has the higher reward", (self.folder / "page.html").read_text())


if __name__ == "__main__":
    unittest.main()
