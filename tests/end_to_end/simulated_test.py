"""Training on the simulated accelerator (tests/simulated), whose streams, memory and collectives follow CUDA's and NCCL's
rules: real ranks of `trainer launch`, each with a device. A race ends a run with an error."""

import json
import os
import shutil
import subprocess
import unittest
from unittest import mock

import support
from support import EndToEnd, results

LIBRARY = os.path.join(os.path.dirname(support.TRAINER), "libtrainer_simulated.so")
TINY_LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 16, "intermediate_size": 32,
              "num_hidden_layers": 4, "num_attention_heads": 4, "attention_dropout": 0.1}
CAUSAL_DATA = {"data": {"task": "causal_lm", "max_length": 48}}
CAUSAL = {"model": {"config": TINY_LLAMA}, **CAUSAL_DATA}
# Ranks, and what selects the strategy.
STRATEGIES = {
    "ddp": (2, {}),
    "fsdp": (2, {"distributed_type": "FSDP"}),
    "hybrid": (4, {"distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": "HYBRID_SHARD"},
                   "parallelism_config": {"parallelism_config_dp_replicate_size": 2, "parallelism_config_dp_shard_size": 2}}),
    "tensor": (2, {"parallelism_config": {"parallelism_config_tp_size": 2}}),
    "context": (2, {**CAUSAL, "parallelism_config": {"parallelism_config_cp_size": 2}}),
    "pipeline": (2, {**CAUSAL, "parallelism_config": {"parallelism_config_pp_size": 2}})}
ONE_UPDATE = {"training": {"max_steps": 1}, "evaluation": None, "data": {"validation": None}}


class OnDevices(EndToEnd):
    def setUp(self):
        super().setUp()
        self.set_environment("TRAINER_ACCELERATOR_LIBRARY", LIBRARY)

    def set_environment(self, name, value):
        before = os.environ.get(name)
        os.environ[name] = value
        self.addCleanup(lambda: os.environ.pop(name) if before is None else os.environ.update({name: before}))

    def job_on_devices(self, output, ranks, *changes):
        if any("model" in change for change in changes):
            changes = ({"model": {"config": None}, "data": {"max_source_length": None}}, *changes)
        return self.job(output, {"use_cpu": False, "num_processes": ranks, "distributed_type": "MULTI_GPU"}, *changes)

    def launch_on_cpu(self, output, ranks, *changes):
        """The same job without devices; returns its results."""
        with mock.patch.dict(os.environ):
            os.environ.pop("TRAINER_ACCELERATOR_LIBRARY")
            os.environ.pop("TRAINER_EMULATED_KERNELS", None)
            self.launch(self.job_on_devices(output, ranks, {"distributed_type": "MULTI_CPU"}, *changes, {"use_cpu": True}))
        return results(self.folder / output)

    def assert_near(self, found, expected, tolerance, keys=("loss", "grad_norm", "eval_loss")):
        self.assertEqual([line["step"] for line in found], [line["step"] for line in expected])
        for line, same in zip(found, expected):
            for key in keys:
                if key in same:
                    self.assertAlmostEqual(line[key], same[key], delta=tolerance * abs(same[key]), msg=(line, key))


class Strategies(OnDevices):
    def test_a_part_of_the_selftest(self):
        """For two ranks; `trainer selftest --device cuda` on this library takes a few seconds a case. With our kernels, as on
        a GPU; the launched runs of this class have reference layers."""
        self.set_environment("TRAINER_EMULATED_KERNELS", "1")
        for part in ("GPT-2 LoRA FSDP SHARD_GRAD_OP 2 sent x", "GPT-2 LoRA FSDP FULL_SHARD 2 offload x4",
                     "GPT-2 LoRA TP 2 by rows", "GPT-2 LoRA PP 2"):
            done = subprocess.run([support.TRAINER, "selftest", "--device", "cuda", "--backend", "nccl",
                                   "--num_processes", "2", "--only", part], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_drawn_part_of_the_selftest(self):
        """For four ranks, with dropout; each draw has one to four micro-batches."""
        self.set_environment("TRAINER_EMULATED_KERNELS", "1")
        for part in (["--random", "6", "--seed", "1"], ["--resume", "--random", "3", "--seed", "1"]):
            done = subprocess.run([support.TRAINER, "selftest", "--device", "cuda", "--backend", "nccl",
                                   "--num_processes", "4", *part], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_launched_runs_train_as_on_the_cpu(self):
        """With dropout, accumulation, evaluation and generation. Attention's masks are the CPU's only if `deterministic`."""
        common = {"deterministic": True, "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 4},
                  "evaluation": {"eval_steps": 2, "generate": True}}
        for name, ranks, changes in (
                ("ddp", 2, {}),
                ("fsdp", 2, {"distributed_type": "FSDP"}),
                ("no_prefetch", 2, {"distributed_type": "FSDP", "fsdp_config": {
                    "fsdp_forward_prefetch": False, "fsdp_backward_prefetch": "NO_PREFETCH"}}),
                ("post", 2, {"distributed_type": "FSDP", "fsdp_config": {
                    "fsdp_forward_prefetch": True, "fsdp_backward_prefetch": "BACKWARD_POST",
                    "fsdp_sharding_strategy": "SHARD_GRAD_OP"}}),
                *((name, *STRATEGIES[name]) for name in ("tensor", "pipeline", "context"))):
            with self.subTest(name):
                self.launch(self.job_on_devices(name, ranks, common, changes))
                expected = self.launch_on_cpu(name + "_cpu", ranks, common, changes)
                self.assert_near(results(self.folder / name), expected, 2e-5)

    def test_hybrid_sharding_trains_as_one_rank_on_the_cpu(self):
        """Shards within two groups of two ranks, whose gradients are summed over both groups."""
        common = {"deterministic": True, "evaluation": {"eval_steps": 2, "generate": True},
                  "training": {"per_device_train_batch_size": 1, "global_batch_size": 8, "max_grad_norm": 0.5, "max_steps": 4}}
        expected = self.launch_on_cpu("cpu", 1, common, {"distributed_type": "NO"})
        for strategy in ("HYBRID_SHARD", "HYBRID_SHARD_ZERO2"):
            with self.subTest(strategy):
                self.launch(self.job_on_devices(strategy, 4, common, {
                    "distributed_type": "FSDP", "fsdp_config": {"fsdp_sharding_strategy": strategy},
                    "parallelism_config": {"parallelism_config_dp_replicate_size": 2,
                                           "parallelism_config_dp_shard_size": 2}}))
                self.assert_near(results(self.folder / strategy), expected, 2e-5)

    def test_fused_attention_trains_as_the_cpu(self):
        """With grouped heads and a window, which no dropout within attention keeps from libtorch's fused operators. In
        bf16, gradients of later updates vary by several percent with the order of sums, on CPUs too."""
        model = {"model_type": "mistral", "vocab_size": 400, "hidden_size": 32, "intermediate_size": 48, "head_dim": 8,
                 "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "sliding_window": 12,
                 "attention_dropout": 0.0}
        common = {"model": {"config": model}, "data": {"task": "causal_lm", "max_length": 48},
                  "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 4},
                  "evaluation": {"eval_steps": 2, "generate": True}}
        tensor = {"parallelism_config": {"parallelism_config_tp_size": 2}}
        context = {"parallelism_config": {"parallelism_config_cp_size": 2}}
        for name, precision, changes in (("ddp", "bf16", {}), ("fsdp", "bf16", {"distributed_type": "FSDP"}),
                                         ("tensor", "bf16", tensor), ("tensor_fp32", "no", tensor),
                                         ("context_fp32", "no", context)):
            with self.subTest(name):
                changes = {**changes, "mixed_precision": precision}
                run = self.launch(self.job_on_devices(name, 2, common, changes))
                self.assertIn("attention: flash attention\n" if precision == "bf16" else "attention: memory-efficient",
                              run.out + run.err)
                expected = self.launch_on_cpu(name + "_cpu", 2, common, changes)
                found = results(self.folder / name)
                if precision == "bf16":
                    self.assert_near(found[:1], expected[:1], 2e-2)
                    self.assert_near(found, expected, 1e-2, ("loss", "eval_loss"))
                else:
                    self.assert_near(found, expected, 2e-5)

    def test_a_resumed_run_is_the_uninterrupted_one(self):
        """With dropout and accumulation."""
        common = {"training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 4},
                  "checkpoint": {"save_steps": 2}, "evaluation": None, "data": {"validation": None}}
        for name, changes in (
                ("ddp", {}),
                ("fsdp", {"distributed_type": "FSDP"}),
                ("fsdp_half", {"distributed_type": "FSDP", "mixed_precision": "bf16"}),
                ("tensor", {"parallelism_config": {"parallelism_config_tp_size": 2}}),
                ("pipeline", {**CAUSAL, "parallelism_config": {"parallelism_config_pp_size": 2}})):
            with self.subTest(name):
                whole, cut = f"{name}_whole", f"{name}_cut"
                self.launch(self.job_on_devices(whole, 2, common, changes))
                shutil.copytree(self.folder / whole, self.folder / cut)
                shutil.rmtree(self.folder / cut / "checkpoint-4")
                self.launch(self.job_on_devices(cut, 2, common, changes))
                self.assert_same_run(self.folder / cut, self.folder / whole)


class OurKernels(OnDevices):
    """The CUDA kernels' text, emulated, on the device's memory and streams."""

    def test_launched_runs_train_as_on_the_cpu(self):
        common = {"deterministic": True, "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 2},
                  "evaluation": None, "data": {"validation": None}}
        self.set_environment("TRAINER_EMULATED_KERNELS", "1")
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                self.launch(self.job_on_devices(name, ranks, common, changes))
                expected = self.launch_on_cpu(name + "_cpu", ranks, common, changes)
                self.assert_near(results(self.folder / name), expected, 2e-5)


class Synchronizations(OnDevices):
    def counters(self, name, ranks, steps, *changes):
        """The launches, waits and copies of each rank."""
        folder = self.folder / f"{name}_{steps}_counts"
        folder.mkdir()
        self.set_environment("TRAINER_SIMULATED_COUNTS", str(folder))
        self.launch(self.job_on_devices(f"{name}_{steps}", ranks, {
            "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": steps},
            "evaluation": None, "data": {"validation": None}, "checkpoint": {"save_steps": 100}}, *changes))
        return [tuple(map(int, (folder / str(rank)).read_text().split())) for rank in range(ranks)]

    def counted(self, *arguments):
        """The times that each rank waited for its device."""
        return [waits for _, waits, _ in self.counters(*arguments)]

    def more_copies(self, name, ranks, layers, few, more):
        """How many more copies the second changes make on each rank."""
        model = {"model": {"config": TINY_LLAMA | {"num_hidden_layers": layers, "attention_dropout": 0.0}}}
        before, after = (self.counters(f"{name}_{layers}_{i}", ranks, 2, CAUSAL_DATA, model, changes)
                         for i, changes in enumerate((few, more)))
        return [b[2] - a[2] for a, b in zip(before, after)]

    def test_layers_share_what_they_send_to_the_device(self):
        """The numbers of a batch's rows, also where attention has other keys than queries: after a prefix, those of other
        ranks, and those of a cache."""
        context = {"parallelism_config": {"parallelism_config_cp_size": 2}}
        prefix = {"lora": {"peft_type": "PREFIX_TUNING", "num_virtual_tokens": 3}}
        for name, ranks, changes in (("ddp", 2, {}), ("prefix", 2, prefix), ("context", 2, context),
                                     ("prefix_in_context", 2, {**context, **prefix})):
            with self.subTest(name):
                longer = {**changes, "training": {"max_steps": 4}}
                self.assertEqual(*(self.more_copies(name, ranks, layers, changes, longer) for layers in (2, 4)))
        with self.subTest("generation"):
            few, more = ({"evaluation": {"eval_steps": 2, "generate": True, "max_new_tokens": tokens},
                          "data": {"validation": {"fraction": 0.1}}} for tokens in (2, 5))
            of_two, of_four = (self.more_copies("generation", 1, layers, few, more)[0] for layers in (2, 4))
            self.assertEqual(of_two, of_four)
            self.assertGreater(of_two, 0)

    def test_an_update_with_offload_waits_for_its_gradients_too(self):
        """The host updates the shards: it waits for their gradients, and then for the loss."""
        for name, changes in (("offload", {}), ("offload_lora", {"lora": {"r": 4}})):
            with self.subTest(name):
                few, more = (self.counted(name, 2, steps, Offload.SHARDED, changes) for steps in (2, 5))
                self.assertEqual([(b - a) / 3 for a, b in zip(few, more)], [2, 2])

    def test_an_update_waits_for_the_device_once(self):
        """For the loss and the gradients' norm together, after all micro-batches."""
        whole = {"training": {"max_grad_norm": 0.0}}
        for name, ranks, changes in (
                ("one", 1, {"distributed_type": "NO", "training": {"on_divergence": "skip"}}),
                ("one_unclipped", 1, {"distributed_type": "NO", **whole}),
                ("ddp", 2, {}),
                ("fsdp", 2, {"distributed_type": "FSDP", **whole}),
                ("fsdp_fp16", 2, {"distributed_type": "FSDP", "mixed_precision": "fp16"}),
                ("hybrid", *STRATEGIES["hybrid"]),
                ("activation_offload", 1, {"distributed_type": "NO", "training": {"gradient_checkpointing": True,
                                                                                  "activation_offloading": True}}),
                ("lora", 2, {"distributed_type": "FSDP", "lora": {"r": 4, "lora_dropout": 0.1}}),
                ("four_bits", 2, {"distributed_type": "FSDP", **WithGraphs.FOUR_BITS, **CAUSAL_DATA}),
                ("tensor", 2, {"parallelism_config": {"parallelism_config_tp_size": 2}}),
                ("sequence", 2, {"parallelism_config": {"parallelism_config_tp_size": 2,
                                                        "parallelism_config_tp_sequence_parallel": True}}),
                ("context", *STRATEGIES["context"]),
                ("pipeline", *STRATEGIES["pipeline"])):
            with self.subTest(name):
                few, more = (self.counted(name, ranks, steps, changes) for steps in (2, 5))
                self.assertEqual([(b - a) / 3 for a, b in zip(few, more)], [1] * ranks)


class WithGraphs(OnDevices):
    """training.cuda_graphs: the passes of micro-batches of a repeated shape are recorded and replayed."""
    GPT2 = {"model_type": "gpt2", "vocab_size": 400, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 48}
    LLAMA = TINY_LLAMA | {"attention_dropout": 0.0}
    UPDATES = {"distributed_type": "NO", "data": {"task": "causal_lm", "source": "{sentence}", "target": None, "max_length": 32,
                                                  "group_texts": True, "max_target_length": None,
                                                  "max_source_length": None, "validation": None},
               "training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2, "max_steps": 8},
               "evaluation": None}
    EVALUATED = {"data": {"validation": {"fraction": 0.2}}, "evaluation": {"eval_steps": 4, "generate": True}}

    FOUR_BITS = {"model": {"config": LLAMA | {"hidden_size": 64, "intermediate_size": 64},
                           "quantization_config": {"load_in_4bit": True}}, "lora": {"r": 4}}

    def graphed(self, name, *changes, ranks=1):
        """Trains without graphs and with them, which must make no difference. Returns the screen and, for each rank, the
        number of launches of both."""
        launches = []
        for graphs in (False, True):
            folder = self.folder / f"{name}_{graphs}"
            counts = self.folder / f"{name}_{graphs}_counts"
            counts.mkdir()
            self.set_environment("TRAINER_SIMULATED_COUNTS", str(counts))
            model = [] if any("config" in change.get("model", {}) for change in changes) else [{"model": {"config": self.LLAMA}}]
            run = self.launch(self.job_on_devices(folder.name, ranks, self.UPDATES, *model, *changes,
                                                  {"model": {}, "training": {"cuda_graphs": graphs}}))
            launches.append([int((counts / str(rank)).read_text().split()[0]) for rank in range(ranks)])
        self.assert_same_run(self.folder / f"{name}_True", self.folder / f"{name}_False")
        return run.out + run.err, list(zip(*launches))


class Graphs(WithGraphs):
    def test_change_no_bit_of_a_run(self):
        """With dropout and accumulation. The last update of an epoch has fewer samples, so micro-batches of two shapes."""
        gpt2 = {"model": {"config": self.GPT2 | {"attn_pdrop": 0.0}}}
        for name, changes in (
                ("full", {}),
                ("bf16", {"mixed_precision": "bf16"}),
                ("lora", {"mixed_precision": "bf16", "lora": {"r": 4, "lora_dropout": 0.1, "target_modules": "all-linear"}}),
                ("gpt2", gpt2),
                ("gpt2_own_masks", {"model": {"config": self.GPT2}, "deterministic": True}),
                ("recomputed", {**gpt2, "training": {"gradient_checkpointing": True}}),
                ("fp16", {"mixed_precision": "fp16"})):
            with self.subTest(name):
                screen, [(without, having)] = self.graphed(name, changes)
                self.assertIn("micro-batches of 64 tokens in 2 samples are replayed from now on", screen)
                self.assertLess(having, 0.5 * without)

    def test_evaluation_and_generation_run_as_usual(self):
        screen, _ = self.graphed("evaluated", self.EVALUATED)
        self.assertIn("are replayed from now on", screen)

    def test_with_kernels(self):
        self.set_environment("TRAINER_EMULATED_KERNELS", "1")
        for name, changes in (("gpt2", {"model": {"config": self.GPT2 | {"attn_pdrop": 0.0}}}),
                              ("four_bits", self.FOUR_BITS)):
            with self.subTest(name):
                screen, _ = self.graphed(name, changes)
                self.assertIn("are replayed from now on", screen)

    def test_sum_the_gradients_of_ranks_after_backward(self):
        screen, launches = self.graphed("ddp", {"distributed_type": "MULTI_GPU"}, ranks=2)
        self.assertIn("are replayed from now on", screen)
        for without, having in launches:
            self.assertLess(having, 0.5 * without)

    def test_a_resumed_run_is_the_uninterrupted_one(self):
        graphs = {"training": {"cuda_graphs": True}, "checkpoint": {"save_steps": 4}}
        graphs["model"] = {"config": self.LLAMA}
        self.launch(self.job_on_devices("whole", 1, self.UPDATES, graphs))
        shutil.copytree(self.folder / "whole", self.folder / "cut")
        shutil.rmtree(self.folder / "cut/checkpoint-8")
        self.launch(self.job_on_devices("cut", 1, self.UPDATES, graphs))
        self.assert_same_run(self.folder / "cut", self.folder / "whole")


class GraphLimits(WithGraphs):
    def test_dropout_that_the_host_seeds_ends_them(self):
        """Attention's, within libtorch's operators."""
        screen, [(without, having)] = self.graphed("seeded", {"mixed_precision": "bf16", "model": {"config": self.GPT2}})
        self.assertIn("training.cuda_graphs has no effect in this run, whose passes can't be recorded: libtorch's "
                      "attention seeds its dropout on the host", screen)
        self.assertLess(abs(having - without), 0.1 * without)

    def test_numbers_that_a_layer_sends_end_them(self):
        """4-bit weights without a kernel: the table of their codes."""
        screen, _ = self.graphed("sent", self.FOUR_BITS)
        self.assertIn("whose passes can't be recorded: a layer sends numbers from the host to the device in every pass",
                      screen)

    def test_other_lengths_each_time_draw_a_warning(self):
        screen, _ = self.graphed("ragged", {"data": {"group_texts": False, "max_length": 48},
                                            "training": {"max_steps": 40}})
        self.assertRegex(screen, r"training.cuda_graphs has replayed \d+ of the first 64 micro-batches")
        self.assertIn("data.group_texts", screen)

    def test_what_cannot_be_recorded_is_refused(self):
        for reason, changes in (
                ("distributed_type is FSDP, which allocates and frees", {"distributed_type": "FSDP"}),
                ("parallelism_config splits the model", {"parallelism_config": {"parallelism_config_tp_size": 2}}),
                ("data.task is seq2seq_lm", {"data": {"task": "seq2seq_lm", "group_texts": None, "max_length": None}}),
                ("lora.peft_type is PROMPT_TUNING", {"lora": {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4}}),
                ("activation_offloading is true", {"training": {"gradient_checkpointing": True, "activation_offloading": True}}),
                ("local_sgd_steps is 2", {"training": {"local_sgd_steps": 2}}),
                ("ddp_comm_hook is bf16", {"training": {"ddp_comm_hook": "bf16"}})):
            with self.subTest(reason):
                run = self.launch(self.job_on_devices("refused", 2, self.UPDATES, {"distributed_type": "MULTI_GPU"}, changes,
                                                      {"model": {"config": self.LLAMA}, "training": {"cuda_graphs": True}}), code=2)
                self.assertIn("training.cuda_graphs is true, but", run.err)
                self.assertIn(reason, run.err)


class Stragglers(OnDevices):
    def test_are_found_though_the_host_waits_for_no_collective(self):
        """It waits for the device, and so as long as the slowest rank. A rank is compared with those of its stage."""
        steps = {"training": {"max_steps": 50}, "evaluation": None, "checkpoint": {"save_steps": 0}}
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                with mock.patch.dict(os.environ, {"TRAINER_INJECT": "slow:rank=1,step=3,seconds=0.6,times=14"}):
                    run = self.launch(self.job_on_devices(name, 4 if name == "pipeline" else ranks, steps, changes))
                slow = [line for line in support.read_lines(self.folder / name) if line.get("straggler") == "slow"]
                self.assertEqual([line["rank"] for line in slow], [1], run.err)


class Offload(OnDevices):
    """Shards, gradients, optimizer state and the inputs of recomputed blocks in pinned memory of the host. A host that
    doesn't wait for a copy, and two streams that aren't ordered, end a run with an error."""
    UPDATES = {"deterministic": True, "training": {"per_device_train_batch_size": 2, "global_batch_size": 8, "max_grad_norm": 0.5, "max_steps": 3},
               "checkpoint": {"save_steps": 2}, "evaluation": {"eval_steps": 2}}
    SHARDED = {"distributed_type": "FSDP", "fsdp_config": {"fsdp_offload_params": True}}

    def on_cpu(self, output, *changes):
        """One rank."""
        self.launch_on_cpu(output, 1, self.UPDATES, *changes, {"distributed_type": "NO"})

    def test_runs_train_as_one_rank_on_the_cpu(self):
        """With dropout, accumulation, clipping, evaluation and saves."""
        self.on_cpu("cpu")
        for name, ranks, changes in (
                ("full", 2, {"fsdp_config": {"fsdp_forward_prefetch": True}, "evaluation": {"generate": True}}),
                ("unpinned", 2, {"fsdp_config": {"fsdp_offload_pin_memory": False,
                                                 "fsdp_backward_prefetch": "BACKWARD_POST",
                                                 "fsdp_sharding_strategy": "SHARD_GRAD_OP"}}),
                ("alone", 1, {"training": {"gradient_checkpointing": True, "activation_offloading": True}}),
                ("hybrid", 4, {"parallelism_config": {"parallelism_config_dp_replicate_size": 2,
                                                      "parallelism_config_dp_shard_size": 2}}),
                ("tensor", 4, {"parallelism_config": {"parallelism_config_tp_size": 2,
                                                      "parallelism_config_tp_sequence_parallel": True}})):
            with self.subTest(name):
                self.launch(self.job_on_devices(name, ranks, self.UPDATES, self.SHARDED, changes))
                self.assert_near(results(self.folder / name), results(self.folder / "cpu"), 2e-5)

    def test_stages_and_their_activations(self):
        recomputed = {"training": {"gradient_checkpointing": True, "activation_offloading": True}}
        self.on_cpu("cpu", CAUSAL)
        self.launch(self.job_on_devices("out", 2, self.UPDATES, self.SHARDED, recomputed, CAUSAL,
                                        {"parallelism_config": {"parallelism_config_pp_size": 2}}))
        self.assert_near(results(self.folder / "out"), results(self.folder / "cpu"), 2e-5)

    def test_a_frozen_base_in_bf16(self):
        """ZeRO 3 by a ds_config.json, with LoRA, against the same run without offload."""
        zero = {"stage": 3, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "cpu", "pin_memory": True}}
        for name, optimization in (("out", zero), ("device", {"stage": 3})):
            document = self.write(name + ".json", json.dumps({"bf16": {"enabled": True},
                                                              "zero_optimization": optimization}))
            self.launch(self.job_on_devices(name, 2, self.UPDATES, {
                "distributed_type": "DEEPSPEED", "deepspeed_config": {"deepspeed_config_file": str(document)},
                "training": {"global_batch_size": 0, "gradient_accumulation_steps": 2}, "lora": {"r": 4}}))
        self.assert_near(results(self.folder / "out"), results(self.folder / "device"), 1e-5)

    def test_any_strategy_resumes_it(self):
        for only in ("FULL_SHARD 2 -> FSDP FULL_SHARD 2 offload", "2 offload -> FSDP FULL_SHARD 2"):
            done = subprocess.run([support.TRAINER, "selftest", "--resume", "--device", "cuda", "--backend", "nccl",
                                   "--num_processes", "2", "--only", only], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_batch_size_that_fits(self):
        self.set_environment("TRAINER_SIMULATED_BYTES", str(2 << 20))
        run = self.launch(self.job_on_devices("out", 2, self.SHARDED, {
            "training": {"per_device_train_batch_size": 25, "auto_find_batch_size": True, "max_steps": 2},
            "evaluation": None, "data": {"validation": None}}))
        self.assertRegex(run.out + run.err, r"per_device_train_batch_size \d+ instead of 25 fits into 2 MiB")


class Devices(OnDevices):
    def noted(self, variable, folder):
        """What the library writes, by rank, into a folder that the variable names."""
        folder = self.folder / folder
        folder.mkdir()
        self.set_environment(variable, str(folder))
        return lambda ranks=2: [(folder / str(rank)).read_text() for rank in range(ranks)]

    def test_tf32_takes_effect(self):
        for tf32 in (True, False):
            ended = self.noted("TRAINER_SIMULATED_ENDS", f"ends_{tf32}")
            self.launch(self.job_on_devices(f"out_{tf32}", 2, ONE_UPDATE, {"training": {"tf32": tf32}}))
            self.assertEqual(["with TF32" in text for text in ended()], [tf32] * 2)

    def test_every_rank_logs_its_device(self):
        self.launch(self.job_on_devices("out", 2, ONE_UPDATE))
        for rank in range(2):
            self.assertRegex((self.folder / f"out/logs/rank-{rank}.log").read_text(),
                             rf"rank {rank} trains on simulated:{rank} \(simulated device, 4(\.0)? GiB of 4(\.0)? GiB free\)")

    def test_communicators_are_told_of_the_end(self):
        """And keep the device that they were bound to, which c10d's groups would take from them."""
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                ended = self.noted("TRAINER_SIMULATED_ENDS", f"ends_{name}")
                self.launch(self.job_on_devices(name, ranks, ONE_UPDATE, changes))
                for rank, text in enumerate(ended(ranks)):
                    self.assertEqual(set(text.splitlines()), {f"shutdown, bound to simulated:{rank}"})

    def test_communicators_of_a_failed_run_are_aborted(self):
        self.set_environment("TRAINER_SIMULATED_LOST_BYTES", str((4 << 30) - (64 << 10)))
        for name, (ranks, changes) in {"one": (1, {"distributed_type": "NO"}), **STRATEGIES}.items():
            with self.subTest(name):
                self.noted("TRAINER_SIMULATED_ENDS", f"ends_{name}")
                run = self.launch(self.job_on_devices(name, ranks, ONE_UPDATE, changes), code=4)
                self.assertIn("out of memory while", run.err)
                if ranks > 1:
                    self.assertIn("abort", "".join(path.read_text() for path in (self.folder / f"ends_{name}").iterdir()))


class FlightRecorder(OnDevices):
    def test_nccls_recorder_is_as_the_user_has_set_it(self):
        """Gloo's is off, and both read the same variables: Gloo's when its first group is made, before NCCL's. Ranks of
        one machine need no Gloo; these believe that they are on several."""
        self.set_environment("TRAINER_ADDRESS", "127.0.0.1")
        for name, (ranks, changes) in STRATEGIES.items():
            for given in (None, "77"):
                with self.subTest(name, given=given), mock.patch.dict(os.environ):
                    os.environ.pop("TORCH_FR_BUFFER_SIZE", None)
                    if given is not None:
                        os.environ["TORCH_FR_BUFFER_SIZE"] = given
                    folder = self.folder / f"recorder_{name}_{given}"
                    folder.mkdir()
                    os.environ["TRAINER_SIMULATED_RECORDER"] = str(folder)
                    self.launch(self.job_on_devices(f"{name}_{given}", ranks, ONE_UPDATE, changes))
                    self.assertEqual([(folder / str(rank)).read_text() for rank in range(ranks)], [given or "unset"] * ranks)


class Failures(OnDevices):
    def test_memory_that_the_plan_cannot_see_is_missing(self):
        """As after fragmentation: the device reports more free memory than it can allocate."""
        self.set_environment("TRAINER_SIMULATED_BYTES", str(64 << 20))
        self.set_environment("TRAINER_SIMULATED_LOST_BYTES", str((64 << 20) - (64 << 10)))
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                run = self.launch(self.job_on_devices(name, ranks, ONE_UPDATE, changes), code=4)
                for part in ("out of memory while", "Tried to allocate", "per_device_train_batch_size"):
                    self.assertIn(part, run.err)
                self.assertNotIn("bug", run.err)

    def test_a_rank_dies(self):
        self.set_environment("TRAINER_INJECT", "kill:rank=1,step=2")
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                run = self.launch(self.job_on_devices(name, ranks, changes), code=137)
                self.assertIn("rank 1, step 2", run.err)
                self.assertNotIn("bug", run.err)

    def test_a_rank_that_loses_another_one_reports_it(self):
        """Under DDP the exception comes from c10d's own Reducer, otherwise from our communicator. NCCL's last line names
        the reason."""
        self.set_environment("TRAINER_SIMULATED_CUT", "1,9")
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                run = self.launch(self.job_on_devices(name, ranks, changes), code=6)
                self.assertRegex(run.err, rf"rank {'[02]' if name == 'hybrid' else 0}, step \d+")
                for part in ("another rank was lost", "NCCL error in:", "ncclRemoteError"):
                    self.assertIn(part, run.err)
                self.assertRegex(run.err, r"Last error: \w+ number \d+ of (collectives of \d ranks|messages between .*): ")
                self.assertNotIn("bug", run.err)

    def test_nccls_watchdog_ends_a_rank(self):
        self.set_environment("TRAINER_SIMULATED_TIMEOUT_MS", "2000")
        self.set_environment("TRAINER_SIMULATED_STALL", "1,9")
        for name, (ranks, changes) in STRATEGIES.items():
            with self.subTest(name):
                run = self.launch(self.job_on_devices(name, ranks, changes), code=6)
                self.assertIn("Watchdog caught collective operation timeout", run.err)
                self.assertNotIn("bug", run.err)


if __name__ == "__main__":
    unittest.main()
