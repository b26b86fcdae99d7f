"""`trainer launch` on a GPU and on the CPU: the same losses, for what a GPU runs by other code. Without a GPU, some cases run
on the simulated accelerator."""

import os
import pathlib
import shutil
import signal
import unittest
from unittest import mock

import support
from support import EndToEnd, merged, results

LIBRARIES = pathlib.Path(support.TRAINER).parent if support.TRAINER else pathlib.Path()
SIMULATED = LIBRARIES / "libtrainer_simulated.so"
NO_GPU = "this machine has no NVIDIA GPU, or this build no libtrainer_cuda.so"
HAS_GPU = (LIBRARIES / "libtrainer_cuda.so").exists() and pathlib.Path("/dev/nvidiactl").exists()

LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
CAUSAL = {"data": {"task": "causal_lm", "source": "{sentence}", "target": None, "max_length": 128, "group_texts": True,
                   "max_target_length": None, "max_source_length": None, "max_samples": 400}}
BF16 = {"mixed_precision": "bf16"}


def causal(model, **changes):
    return merged({**CAUSAL, "model": {"config": model}}, changes)


class OnGpu(EndToEnd):
    def setUp(self):
        super().setUp()
        if not HAS_GPU and not SIMULATED.exists():
            self.skipTest(NO_GPU)

    def devices(self, device):
        """A context in which runs find the device."""
        simulates = not HAS_GPU and device != "cpu"
        return mock.patch.dict(os.environ, {"TRAINER_ACCELERATOR_LIBRARY": str(SIMULATED)} if simulates else {})

    def launched(self, name, device, *changes):
        """The results of four updates, and what was on the screen."""
        common = {"deterministic": True, "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2,
                                                      "max_steps": 4, "learning_rate": 1e-3}, "evaluation": {"eval_steps": 2}}
        if any("model" in change for change in changes):
            changes = ({"model": {"config": None}}, *changes)
        with self.devices(device):
            run = self.launch(self.job(f"{name}_{device}", common, *changes, {"use_cpu": device == "cpu"}))
        return results(self.folder / f"{name}_{device}"), run.out + run.err

    def compare(self, name, changes, tolerance=1e-4, on_cpu=None):
        found, screen = self.launched(name, "gpu", changes)
        expected, _ = self.launched(name, "cpu", changes, on_cpu or {})
        self.assertEqual([line["step"] for line in found], [line["step"] for line in expected])
        for line, same in zip(found, expected):
            for key in ("loss", "eval_loss"):
                if key in same:
                    self.assertAlmostEqual(line[key], same[key], delta=tolerance * abs(same[key]), msg=f"{key} in {line}")
        return screen

    def only_on_gpus(self):
        if not HAS_GPU:
            self.skipTest(NO_GPU)


class GpuLaunch(OnGpu):
    def test_t5(self):
        self.compare("t5", {"evaluation": {"generate": True}})

    def test_llama_in_bf16_on_blocks(self):
        """Of a length for which Hopper runs cuDNN's attention, if dropout masks may differ."""
        screen = self.compare("llama", causal(LLAMA, **BF16, deterministic=False), tolerance=1e-2)
        self.assertRegex(screen, "attention: (cuDNN|flash) attention\n")

    def test_four_bits(self):
        self.only_on_gpus()
        model = {"config": LLAMA, "quantization_config": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True}}
        self.compare("nf4", merged(causal(LLAMA, **BF16), {"model": model, "lora": {"r": 4, "target_modules": "all-linear"}}),
                     tolerance=1e-2)

    def test_lora_of_t5_in_bf16(self):
        self.only_on_gpus()
        self.compare("t5_lora", {**BF16, "lora": {"r": 4, "lora_dropout": 0.1}}, tolerance=1e-2)

    def test_gpt2_in_fp16(self):
        self.only_on_gpus()
        gpt2 = {"model_type": "gpt2", "vocab_size": 400, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
        self.compare("gpt2", causal(gpt2, mixed_precision="fp16"), tolerance=1e-2)

    def test_windows_soft_caps_and_norms_of_heads(self):
        self.only_on_gpus()
        for family, sizes in (("mistral", {"sliding_window": 24}), ("gemma2", {"head_dim": 16, "sliding_window": 24}),
                              ("qwen3", {"head_dim": 16})):
            with self.subTest(family):
                self.compare(family, causal(merged(LLAMA, {"model_type": family, **sizes}), **BF16), tolerance=1e-2)

    def test_offload_and_recomputation(self):
        self.only_on_gpus()
        changes = causal(LLAMA, **BF16, distributed_type="FSDP", num_processes=1,
                         fsdp_config={"fsdp_offload_params": True},
                         training={"gradient_checkpointing": True, "activation_offloading": True})
        self.compare("offload", changes, tolerance=1e-2, on_cpu={"distributed_type": "NO", "fsdp_config": None})

    def test_muon(self):
        self.only_on_gpus()
        self.compare("muon", causal(LLAMA, training={"optim": "muon"}), tolerance=1e-3)

    def test_two_ranks_share_a_gpu(self):
        self.only_on_gpus()
        sharded = {"distributed_type": "FSDP", "num_processes": 2, "training": {"per_device_train_batch_size": 1, "ddp_backend": "gloo"}}
        self.compare("sharded", causal(LLAMA, **sharded))

    def test_graphs_with_dropout(self):
        self.only_on_gpus()
        changes = causal(LLAMA, **BF16, deterministic=False, lora={"r": 4, "lora_dropout": 0.1, "target_modules": "all-linear"})
        found, screen = self.launched("graphed", "gpu", changes, {"training": {"cuda_graphs": True, "max_steps": 8}})
        self.assertIn("are replayed from now on", screen)
        expected, _ = self.launched("plain", "gpu", changes, {"training": {"max_steps": 8}})
        for line, same in zip(found, expected, strict=True):
            if "loss" in same:
                self.assertAlmostEqual(line["loss"], same["loss"], delta=1e-3 * same["loss"], msg=line)

    def test_a_resumed_run_is_the_uninterrupted_one(self):
        """Bit for bit, with deterministic: true."""
        self.only_on_gpus()
        saved = {"checkpoint": {"save_steps": 2}}
        for name, changes in (("t5", {}), ("llama", causal(LLAMA, **BF16))):
            with self.subTest(name):
                self.launched(f"{name}_whole", "gpu", changes, saved)
                whole, cut = self.folder / f"{name}_whole_gpu", self.folder / f"{name}_cut_gpu"
                shutil.copytree(whole, cut)
                shutil.rmtree(cut / "checkpoint-4")
                self.launched(f"{name}_cut", "gpu", changes, saved)
                self.assert_same_run(cut, whole)


    def test_generation(self):
        """The most likely texts, of a model that has learned the sentences by heart."""
        self.only_on_gpus()
        self.launched("learned", "gpu", causal(LLAMA, data={"max_samples": 8, "group_texts": False}, deterministic=False,
                                               training={"max_steps": 60, "learning_rate": 1e-2}, evaluation=None))
        for flags in ([], ["--num_beams", "3"]):
            texts = {device: self.trainer("generate", str(self.folder / "learned_gpu"), "--prompt", "The", "--device", device,
                                          "--max_new_tokens", "12", *flags).wait().out for device in ("cuda", "cpu")}
            self.assertEqual(texts["cuda"], texts["cpu"])
            self.assertGreater(len(texts["cuda"].split()), 3)

    def test_sigterm_saves(self):
        """NVIDIA's libraries have threads of their own, which must not take the launcher's signals."""
        changes = causal(LLAMA, training={"max_steps": 100000})
        with self.devices("gpu"):
            run = self.start(self.job("stopped", {"model": {"config": None}}, changes, {"use_cpu": False}))
        support.until(lambda: support.last_step(self.folder / "stopped") >= 2)
        run.kill_with(signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        self.assertTrue(list((self.folder / "stopped").glob("checkpoint-*")), run.err)


if __name__ == "__main__":
    unittest.main()
