"""Training on Megatron's .bin and .idx files whose samples hold several documents."""

import os
import shutil
import subprocess
import unittest

from support import REPOSITORY, TINY_T5, TRAINER, EndToEnd, read_lines

LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2,
         "num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 128}


class Documents(EndToEnd):
    def tokenize(self, *words):
        subprocess.run([TRAINER, "tokenize", *map(str, words)], env=dict(os.environ), check=True, capture_output=True)

    def test_attention_does_not_cross_documents(self):
        """A sample of several documents counts as one sample, also when ranks split it; evaluation counts the same way."""
        text, tokenizer, corpus = REPOSITORY / "data/examples/topics.txt", self.folder / "t", self.folder / "corpus"
        self.tokenize("train", "--layout", "llama", "--input", text, "--format", "text", "--output", tokenizer,
                      "--vocab_size", 400)
        self.tokenize("--tokenizer", tokenizer, "--input", text, "--format", "text", "--append-eod", "--output", corpus)
        job = {"model": {"config": dict.fromkeys(TINY_T5) | LLAMA}, "tokenizer": {"path": str(tokenizer)}, "distributed_type": "MULTI_CPU",
               "num_processes": 2, "training": {"global_batch_size": 8, "max_steps": 4},
               "data": {"task": "causal_lm", "train": {"path": str(corpus), "format": "megatron", "columns": None},
                        "source": None, "target": None, "max_source_length": None, "max_target_length": None,
                        "max_samples": None,
                        "megatron": {"sequence_length": 64, "reset_attention_mask": True, "reset_position_ids": True,
                                     "eod_mask_loss": True}}}
        losses = []
        for size in ("dp_shard", "cp", "pp"):
            output = self.folder / "output"
            self.launch(self.job("output", job, {"parallelism_config": {f"parallelism_config_{size}_size": 2},
                                                 "distributed_type": "FSDP" if size == "dp_shard" else "MULTI_CPU"}))
            losses.append([value for line in read_lines(output) for key, value in line.items() if key.endswith("loss")])
            shutil.rmtree(output)
        self.assertEqual(len(losses[0]), 5)
        for way in losses[1:]:
            for loss, expected in zip(way, losses[0], strict=True):
                self.assertAlmostEqual(loss / expected, 1, delta=1e-5)


if __name__ == "__main__":
    unittest.main()
