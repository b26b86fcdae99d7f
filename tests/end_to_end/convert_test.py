"""`trainer convert`: files of other trainers become files that `trainer launch` runs."""

import json
import math
import pathlib
import subprocess
import tempfile
import unittest

from support import TRAINER

LLAMA = {"model_type": "llama", "vocab_size": 300, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 256}
AXOLOTL = """\
base_model: model
adapter: lora
lora_r: 4
lora_target_linear: true
datasets:
  - path: data.jsonl
    type: alpaca
sequence_len: 256
sample_packing: true
micro_batch_size: 1
num_epochs: 1
max_steps: 1
learning_rate: 0.001
output_dir: run
"""
TRL_DPO = """\
model_name_or_path: model
dataset_name: pairs.jsonl
beta: 0.2
loss_type: [sigmoid, sft]
loss_weights: [1.0, 0.1]
max_steps: 1
per_device_train_batch_size: 2
"""


class Convert(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        records = [{"instruction": f"Say {i}.", "input": "", "output": f"{i}"} for i in range(8)]
        (self.folder / "data.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
        (self.folder / "axolotl.yml").write_text(AXOLOTL)

    def trainer(self, *words):
        return subprocess.run([TRAINER, *words], cwd=self.folder, capture_output=True, text=True, check=False)

    def test_a_converted_file_trains(self):
        text = self.folder / "text.txt"
        text.write_text("".join(f"Say {i}. It is {i}.\n" for i in range(99)))
        made = self.trainer("tokenize", "train", "--input", "text.txt", "--output", "tokenizer", "--vocab_size", "280")
        self.assertEqual(made.returncode, 0, made.stderr)
        done = self.trainer("convert", "axolotl.yml", "-o", "jobs/job.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("axolotl.yml:9:1: sample_packing: true is not honored", done.stderr)
        self.assertEqual(done.stdout, "")
        job = self.folder / "jobs" / "job.yaml"
        self.assertIn("- ../data.jsonl", job.read_text())
        job.write_text(job.read_text()[:-20])
        self.assertIn("the file is truncated", self.trainer("check", "jobs/job.yaml").stderr)
        self.trainer("convert", "axolotl.yml", "-o", "jobs/job.yaml", "--overwrite")
        run = self.trainer("launch", "--config_file", "jobs/job.yaml", "--cpu", "--set", "model.path=", "--set",
                           "model.config=" + json.dumps(LLAMA), "--set", f"tokenizer.path={self.folder / 'tokenizer'}",
                           "--set", f"output_dir={self.folder / 'run'}")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = (self.folder / "run" / "metrics.jsonl").read_text().splitlines()
        self.assertTrue(any("loss" in json.loads(line) for line in lines))

    def test_a_file_of_trl_dpo_trains_all_weights_on_pairs(self):
        pairs = [{"prompt": f"Say {i}.", "chosen": f" {i}", "rejected": f" {i + 1}"} for i in range(8)]
        (self.folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
        (self.folder / "text.txt").write_text("".join(f"Say {i}. It is {i}.\n" for i in range(99)))
        self.trainer("tokenize", "train", "--input", "text.txt", "--output", "tokenizer", "--vocab_size", "280")
        (self.folder / "dpo.yaml").write_text(TRL_DPO)
        done = self.trainer("convert", "dpo.yaml", "-o", "job.yaml")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("dpo.yaml is TRL DPO's (by beta, loss_weights, loss_type): ", done.stderr)
        self.assertIn("dpo.yaml:2:15: dataset_name: TRL reads a record by its columns", done.stderr)
        run = self.trainer("launch", "--config_file", "job.yaml", "--cpu", "--set", "model.path=", "--set",
                           "model.config=" + json.dumps(LLAMA), "--set", f"tokenizer.path={self.folder / 'tokenizer'}",
                           "--set", f"output_dir={self.folder / 'run'}", "--set", "logging.logging_steps=1")
        self.assertEqual(run.returncode, 0, run.stderr)
        lines = [json.loads(line) for line in (self.folder / "run" / "metrics.jsonl").read_text().splitlines()]
        first = next(line for line in lines if "loss" in line)
        self.assertGreater(first["loss"], math.log(2) + 0.1, "sigmoid's, and a tenth of the cross-entropy")
        self.assertEqual(first["learning_rate"], 1e-6)
        self.assertFalse((self.folder / "run" / "adapter_config.json").exists())

    def test_an_existing_file_stays(self):
        (self.folder / "job.yaml").write_text("mine")
        refused = self.trainer("convert", "axolotl.yml", "-o", "job.yaml")
        self.assertEqual((refused.returncode, (self.folder / "job.yaml").read_text()), (2, "mine"))
        self.assertIn("--overwrite", refused.stderr)
        self.assertEqual(self.trainer("convert", "axolotl.yml", "-o", "job.yaml", "--overwrite").returncode, 0)
        self.assertIn("lora:", (self.folder / "job.yaml").read_text())

    def test_standard_output_has_nothing_but_the_file(self):
        done = self.trainer("convert", "axolotl.yml")
        self.assertTrue(done.stdout.startswith("# By `trainer convert` from axolotl.yml. A last line"))
        self.assertTrue(done.stdout.endswith("# This is the end of the file.\n"))
        self.assertNotIn("honored", done.stdout)


if __name__ == "__main__":
    unittest.main()
