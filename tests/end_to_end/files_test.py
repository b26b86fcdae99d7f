"""The files that a run leaves under output_dir, on which users' scripts rely."""

import json
import struct
import unittest

from support import SAMPLES, EndToEnd, read_lines, results

SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
GENERATED = {"evaluation": {"metrics": ["loss", "accuracy"], "generate": True}}
STEP_KEYS = {"step", "epoch", "loss", "grad_norm", "learning_rate", "tokens", "tokens_per_second", "step_seconds",
             "data_wait_seconds", "memory_bytes", "order_digest"}
SHORT = {"training": {"max_steps": 4}, "evaluation": {"eval_steps": 2}}


def tensors(path):
    """Shapes by name."""
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + size])
    return {name: about["shape"] for name, about in header.items() if name != "__metadata__"}


class Files(EndToEnd):
    def test_full_training(self):
        self.launch(self.job("output", SHARDED, SHORT, GENERATED, {"logging": {"report_to": ["tensorboard"]}}))
        output = self.folder / "output"
        self.assertEqual({path.name for path in output.iterdir()},
                         {".lock", "checkpoint-3", "checkpoint-4", "config.json", "config.resolved.yaml", "latest", "logs",
                          "README.md", "metrics.jsonl", "model.safetensors", "outcome.json", "predictions.jsonl", "report.html",
                          "spiece.model", "tensorboard", "tokenizer.json", "tokenizer_config.json"})
        self.assertEqual({path.name for path in (output / "logs").iterdir()}, {"rank-0.log", "rank-1.log"})
        self.assertEqual({path.name for path in (output / "checkpoint-4").iterdir()},
                         {"config.json", "manifest.json", "rank-00000.safetensors", "rank-00001.safetensors",
                          "spiece.model", "tokenizer.json", "tokenizer_config.json", "trainer_state.json"})
        self.assertEqual(json.loads((output / "checkpoint-4/trainer_state.json").read_text())["global_step"], 4)
        self.check_model(output)
        self.check_metrics(output)
        self.check_predictions(output)
        self.assertEqual(json.loads((output / "outcome.json").read_text())["code"], 0)

    def check_model(self, output):
        config = json.loads((output / "config.json").read_text())
        self.assertEqual((config["model_type"], config["d_model"], config["architectures"]),
                         ("t5", 16, ["T5ForConditionalGeneration"]))
        names = tensors(output / "model.safetensors")
        self.assertEqual(names["shared.weight"], [400, 16])
        self.assertEqual(names["encoder.block.0.layer.0.SelfAttention.q.weight"], [8, 16])
        self.assertEqual(names["decoder.block.0.layer.1.EncDecAttention.v.weight"], [8, 16])
        self.assertEqual(names["decoder.block.0.layer.2.DenseReluDense.wo.weight"], [16, 32])
        self.assertIn("decoder.final_layer_norm.weight", names)
        self.assertFalse([name for name in names if "lora" in name])

    def check_metrics(self, output):
        lines = read_lines(output)
        steps = [line for line in lines if "loss" in line]
        self.assertEqual([line["step"] for line in steps], [1, 2, 3, 4])
        for line in steps:
            self.assertLessEqual(STEP_KEYS, line.keys())
        evaluations = [line for line in lines if "eval_loss" in line]
        self.assertEqual([line["step"] for line in evaluations], [2, 4])
        for line in evaluations:
            self.assertEqual(line.keys(), {"step", "epoch", "eval_loss", "eval_accuracy"})

    def check_predictions(self, output):
        predictions = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
        self.assertEqual(len(predictions), 12)
        for prediction in predictions:
            self.assertEqual(prediction.keys(), {"input", "prediction", "label"})
            self.assertIn(prediction["label"], ("better", "same", "worse"))

    def test_adapters(self):
        base = self.base_model()
        self.launch(self.job("output", SHARDED, SHORT, {
            "model": {"config": None, "path": str(base)},
            "lora": {"task_type": "SEQ_2_SEQ_LM", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1,
                     "target_modules": ["q", "v"]}}))
        output = self.folder / "output"
        for folder in (output, output / "checkpoint-4"):
            config = json.loads((folder / "adapter_config.json").read_text())
            self.assertEqual((config["peft_type"], config["task_type"], config["r"], config["lora_alpha"]),
                             ("LORA", "SEQ_2_SEQ_LM", 4, 8))
            self.assertEqual(sorted(config["target_modules"]), ["q", "v"])
            self.assertEqual(config["base_model_name_or_path"], str(base))
            names = tensors(folder / "adapter_model.safetensors")
            prefix = "base_model.model.encoder.block.0.layer.0.SelfAttention.q."
            self.assertEqual(names[prefix + "lora_A.weight"], [4, 16])
            self.assertEqual(names[prefix + "lora_B.weight"], [8, 4])
            self.assertEqual(len(names), 2 * 2 * 3)  # A and B of q and v in three attentions
            for name in ("spiece.model", "tokenizer.json", "tokenizer_config.json"):
                self.assertTrue((folder / name).exists(), name)
        self.assertFalse((output / "model.safetensors").exists())

    def test_resolved_configuration_can_be_launched(self):
        self.launch(self.job("output", SHARDED, SHORT))
        output = self.folder / "output"
        self.launch(output / "config.resolved.yaml", "--set", f"output_dir={self.folder / 'again'}")
        self.assertEqual(results(self.folder / "again"), results(output))
        self.assertEqual((self.folder / "again/model.safetensors").read_bytes(),
                         (output / "model.safetensors").read_bytes())


class LabelSmoothing(EndToEnd):
    def test_the_evaluated_loss_is_smoothed_like_the_trained_one(self):
        """As transformers' Trainer does. All samples are one batch, and nothing is learned before the evaluation."""
        few = str(self.write("few.txt", "\n".join(SAMPLES.read_text().splitlines()[:20]) + "\n"))
        data = {"train": {"path": few}, "validation": {"path": few, "fraction": None}, "max_samples": None}
        training = {"per_device_train_batch_size": 20, "max_steps": 1, "learning_rate": 0.0, "label_smoothing_factor": 0.3}
        self.launch(self.job("output", {"data": data, "training": training, "evaluation": {"eval_steps": 1},
                                        "model": {"config": {"dropout_rate": 0.0}}}))
        lines = read_lines(self.folder / "output")
        trained = next(line["loss"] for line in lines if "loss" in line)
        evaluated = next(line["eval_loss"] for line in lines if "eval_loss" in line)
        self.assertAlmostEqual(evaluated, trained, delta=1e-5 * trained)


if __name__ == "__main__":
    unittest.main()
