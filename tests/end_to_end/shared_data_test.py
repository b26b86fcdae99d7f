"""Examples on real data: the tutorial's job on FinancialPhraseBank, with a tiny T5, under FSDP, then LoRA on the result; and
the digits of MNIST's test part under DDP."""

import os
import subprocess
import unittest

from support import REPOSITORY, TINY_T5, TRAINER, EndToEnd, merged, read_lines

BANK = REPOSITORY.parent / "shared/data/financial_phrasebank"
DIGITS = REPOSITORY.parent / "shared/data/mnist10k/t10k-images-idx3-ubyte.gz"


class FinancialPhraseBank(EndToEnd):
    def test_adapters_on_two_ranks(self):
        files = sorted(BANK.rglob("Sentences_50Agree.txt"))
        if not files:
            self.skipTest("../shared/data/financial_phrasebank is absent")
        encoding = "utf-8"
        try:
            files[0].read_text(encoding)
        except UnicodeDecodeError:
            encoding = "latin-1"
        tokenizer = self.folder / "bank-tokenizer"
        subprocess.run([TRAINER, "tokenize", "train", "--input", files[0], "--format", "delimited", "--encoding", encoding,
                        "--output", tokenizer, "--vocab_size", "1000"], check=True, capture_output=True)
        job = {"distributed_type": "FSDP", "num_processes": 2,
               "fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": "T5Block"},
               "tokenizer": {"path": str(tokenizer)},
               "data": {"train": {"path": str(files[0]), "encoding": encoding}, "max_samples": 0,
                        "validation": {"fraction": 0.01}, "max_source_length": 128},
               "training": {"max_steps": 3}, "checkpoint": {"save_steps": 0}, "evaluation": {"eval_steps": 0}}
        self.launch(self.job("base", job, {"model": {"config": merged(TINY_T5, {"vocab_size": 1100})}}))
        self.launch(self.job("output", job, {
            "model": {"config": None, "path": str(self.folder / "base")},
            "lora": {"task_type": "SEQ_2_SEQ_LM", "r": 8, "lora_alpha": 32, "lora_dropout": 0.1},
            "evaluation": {"metrics": ["loss", "accuracy"], "generate": True}}))
        output = self.folder / "output"
        self.assertEqual([line["step"] for line in read_lines(output) if "loss" in line], [1, 2, 3])
        self.assertIn("eval_accuracy", read_lines(output)[-1])
        self.assertTrue((output / "adapter_model.safetensors").exists())
        self.assertTrue((output / "predictions.jsonl").read_text())


class Mnist(EndToEnd):
    def test_digits_are_learned_on_two_ranks(self):
        if not DIGITS.exists():
            self.skipTest("../shared/data/mnist10k is absent")
        command = [TRAINER, "launch", "--config_file", REPOSITORY / "configs/mnist_ddp.yaml",
                   f"--set=output_dir={self.folder / 'output'}", "--set=training.num_train_epochs=5"]
        done = subprocess.run(command, env={**os.environ, "MNIST": str(DIGITS)}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(read_lines(self.folder / "output")[-1]["eval_accuracy"], 0.88)


if __name__ == "__main__":
    unittest.main()
