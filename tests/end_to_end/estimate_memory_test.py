"""`trainer estimate-memory` as users run it: on a folder, a file and a name in the Hub's cache; its figures are those of
`trainer check`."""

import json
import os
import subprocess
import unittest

from families_test import GPT2
from support import PATIENCE, TRAINER, EndToEnd

USAGE, BAD_INPUT = 2, 3


class EstimateMemory(EndToEnd):
    def setUp(self):
        super().setUp()
        (self.folder / "model").mkdir()
        (self.folder / "model/config.json").write_text(json.dumps(GPT2))

    def estimate(self, *words, code=0, **variables):
        done = subprocess.run([TRAINER, "estimate-memory", *map(str, words)], cwd=self.folder, capture_output=True, text=True,
                              env={**os.environ, **variables}, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr if code else done.stdout

    def test_figures_are_those_of_check(self):
        asked = ("model", "--cpu", "--dtypes", "fp32", "--num_processes", "2", "--batch_size", "3", "--sequence_length", "40")
        found = json.loads(self.estimate(*asked, "--lora", "4", "--json"))
        strategies = {row["strategy"]: row for row in found["strategies"]}
        self.assertEqual(sorted(strategies), ["DDP", "FSDP FULL_SHARD", "FSDP SHARD_GRAD_OP", "ZeRO-1", "ZeRO-2", "ZeRO-3"])
        without_data = {"data": {"task": "causal_lm", "max_length": 40, "max_source_length": None, "max_target_length": None,
                                 "train": None, "validation": None, "source": None, "target": None, "max_samples": None},
                        "model": {"config": None, "path": str(self.folder / "model")}, "num_processes": 2,
                        "training": {"per_device_train_batch_size": 3}, "evaluation": None}
        for name, change in (("DDP", {"distributed_type": "MULTI_CPU"}),
                             ("ZeRO-3", {"distributed_type": "FSDP"}),
                             ("ZeRO-2", {"distributed_type": "FSDP",
                                         "fsdp_config": {"fsdp_sharding_strategy": "SHARD_GRAD_OP"}})):
            for part, adapter in (("training", {}), ("lora", {"lora": {"r": 4}, "model": {"dtype": "float32"}})):
                job = self.job("output", without_data, change, adapter)
                checked = subprocess.run([TRAINER, "check", "--json", "--config_file", job], cwd=self.folder, text=True,
                                         capture_output=True, timeout=PATIENCE, check=False)
                self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
                memory = json.loads(checked.stdout)["memory"]
                for key in ("weights", "gradients", "optimizer", "activations", "communication", "training", "saving"):
                    self.assertEqual(strategies[name][part][key], memory[key], (name, part, key))

    def test_a_folder_a_file_and_a_name(self):
        whole = self.estimate("model")
        self.assertIn("GPT2LMHeadModel", whole)
        self.assertIn("LoRA in int4: model.quantization_config.load_in_4bit: 6 layers can't be quantized", whole)
        hub = self.folder / "hub/models--some--model"
        (hub / "refs").mkdir(parents=True)
        (hub / "refs/main").write_text("abc")
        (hub / "snapshots").mkdir()
        (self.folder / "model").rename(hub / "snapshots/abc")
        named = self.estimate("some/model", HF_HUB_CACHE=str(self.folder / "hub"))
        self.assertEqual(named.split("\n", 1)[1], whole.split("\n", 1)[1])
        other = self.folder / "other.json"
        other.write_text(json.dumps(GPT2))
        self.assertEqual(self.estimate(other).split("\n", 1)[1], whole.split("\n", 1)[1])

    def test_bad_input(self):
        self.assertIn("nowhere: does not exist", self.estimate("nowhere", code=BAD_INPUT))
        self.assertIn("hf download some/model", self.estimate("some/model", code=BAD_INPUT))
        (self.folder / "empty").mkdir()
        self.assertIn("empty: has no config.json", self.estimate("empty", code=BAD_INPUT))
        (self.folder / "model/config.json").write_text('{"model_type": "unheard_of"}')
        self.assertIn("unheard_of", self.estimate("model", code=BAD_INPUT))
        (self.folder / "model/config.json").write_text("{")
        self.assertIn("is not a JSON object", self.estimate("model", code=BAD_INPUT))
        self.assertIn("MODEL is required", self.estimate(code=USAGE))
        for words in (("--dtypes", "float8"), ("--num_processes", "0"), ("--lora", "-1"), ("--batch_size", "many")):
            self.assertIn(words[0], self.estimate("model", *words, code=USAGE))


if __name__ == "__main__":
    unittest.main()
