"""A run that is killed and relaunched repeatedly gives results that are bitwise equal to an undisturbed run's."""

import os
import signal
import unittest

from support import EndToEnd, last_step, read_lines, results, snapshot, until

SINGLE = {}
DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 2}
SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
SHARDED_STAGES = {"distributed_type": "FSDP", "num_processes": 4, "parallelism_config": {"parallelism_config_pp_size": 2}}
ACCUMULATED = {"training": {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 2}}
GENERATED = {"evaluation": {"metrics": ["loss", "accuracy"], "generate": True}}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": ["q", "v"]}


def after_step(step):
    """The step's line has just appeared in metrics.jsonl."""
    return lambda output: last_step(output) >= step


def while_saving(step):
    """The step's checkpoint is being written, or has just been published."""
    return lambda output: any(output.glob(f".checkpoint-{step}.*partial")) or (output / f"checkpoint-{step}").exists()


def while_exporting(name):
    """The final weights are being written, or have just been published."""
    return lambda output: (output / f".{name}.partial").exists() or (output / name).exists()


class Killed(EndToEnd):
    def check(self, kills, *changes):
        """`kills`: (moment, victim): the victim is "launcher" or a rank's number."""
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", *changes))
        self.assertEqual(last_step(expected), 12)
        config = self.job("output", *changes)
        landed = [self.kill(self.start(config), moment, victim, output) for moment, victim in kills]
        self.assertTrue(any(landed), "every run finished before it could be killed")
        self.launch(config)
        self.assert_same_run(output, expected)
        self.assert_nothing_runs()
        self.assertEqual([path.name for path in output.rglob("*.partial")], [])
        self.assertEqual(sorted(path.name for path in output.iterdir()), sorted(path.name for path in expected.iterdir()))

    def kill(self, run, moment, victim, output):
        """False when the run finished before it could be killed."""
        rank = None if victim == "launcher" else until(lambda: run.ranks().get(victim))
        until(lambda: moment(output) or run.ended())
        if rank is None:
            run.kill()  # the next run is launched at once, while the ranks are dying
            return True
        try:
            os.kill(rank, signal.SIGKILL)
        except ProcessLookupError:
            pass
        code = run.wait().code
        self.assertIn(code, (0, 137), run.err)
        return code == 137

    def test_single(self):
        self.check([(after_step(1), 0), (while_saving(3), "launcher"), (after_step(4), 0), (while_saving(9), 0),
                    (while_exporting("model.safetensors"), "launcher")], SINGLE, GENERATED)

    def test_data_parallel(self):
        self.check([(after_step(2), 1), (while_saving(3), 0), (after_step(5), "launcher"), (after_step(8), 1)],
                   DATA_PARALLEL, {"checkpoint": {"save_total_limit": 2}})

    def test_sharded(self):
        self.check([(after_step(1), "launcher"), (while_saving(3), 1), (after_step(7), 0), (while_saving(9), "launcher"),
                    (while_saving(12), "launcher")], SHARDED, ACCUMULATED)

    def test_sharded_with_asynchronous_saves(self):
        self.check([(after_step(4), 1), (while_saving(6), 0), (while_saving(9), "launcher")], SHARDED,
                   {"checkpoint": {"async_save": True, "save_total_limit": 1, "metric_for_best_model": "loss"}})

    def test_activations_in_eight_bits(self):
        eight_bits = {"training": {"saved_activations": "int8"}}
        self.check([(after_step(2), 1), (while_saving(6), 0)], SHARDED, eight_bits)
        self.launch(self.job("exact", SHARDED))
        losses = [[row["loss"] for row in read_lines(self.folder / name) if "loss" in row]
                  for name in ("expected", "exact")]
        self.assertEqual(losses[0][0], losses[1][0])  # gradients are off, the loss isn't
        self.assertNotEqual(losses[0][1:], losses[1][1:])

    def test_kept_encoder_output(self):
        decoder = {"r": 4, "target_modules": r"decoder\..*\.(q|v)"}
        kept = {"training": {"dropout": False, "encoder_cache_mb": 1}}
        self.check([(after_step(4), 1), (while_saving(9), 0)], DATA_PARALLEL, {"lora": decoder}, kept)

    def test_sharded_adapters(self):
        # Logged every second update and saved every third: a logged mean continues across the kill.
        self.check([(after_step(2), 0), (while_saving(3), "launcher"), (after_step(8), 1),
                    (while_exporting("adapter_model.safetensors"), "launcher")],
                   SHARDED, {"model": {"config": None, "path": str(self.base_model())}, "lora": LORA,
                             "logging": {"logging_steps": 2}})

    def test_sharded_adapters_of_quantized_weights(self):
        quantized = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True}
        self.check([(after_step(2), 0), (while_saving(6), "launcher")], SHARDED,
                   {"model": {"config": {"d_model": 64, "d_kv": 32, "d_ff": 64}, "quantization_config": quantized},
                    "lora": LORA})

    def test_vera_whose_projections_are_drawn_again(self):
        self.check([(after_step(2), 0), (while_saving(6), "launcher")], SHARDED,
                   {"model": {"config": None, "path": str(self.base_model())},
                    "lora": {"peft_type": "VERA", "r": 4, "vera_dropout": 0.1, "save_projection": False,
                             "target_modules": ["q", "wo"]}})

    def test_loha(self):
        self.check([(after_step(2), 1), (while_saving(6), "launcher")], DATA_PARALLEL,
                   {"model": {"config": None, "path": str(self.base_model())},
                    "lora": {"peft_type": "LOHA", "r": 2, "target_modules": ["q", "wo"]}})

    def test_sharded_in_fp16(self):
        """The initial loss scale is far too high: some updates are skipped, before and after the kill."""
        output = self.folder / "output"
        self.check([(after_step(2), 1), (while_saving(6), "launcher")], SHARDED,
                   {"mixed_precision": "fp16",
                    "training": {"loss_scaling": {"initial_scale_power": 27, "loss_scale_window": 2}}})
        lines = [line for line in read_lines(output) if "loss_scale" in line]
        self.assertEqual(len(lines), 12)
        self.assertEqual(lines[0]["loss_scale"], 2.0 ** 26)
        self.assertEqual(lines[0]["skipped_updates"], 1)
        # Skipped updates don't advance the schedule: the first two updates have the same learning rate.
        self.assertEqual(lines[0]["learning_rate"], lines[1]["learning_rate"])
        self.assertGreater(lines[-1]["learning_rate"], 0)
        self.assertLess(lines[-1]["skipped_updates"], 12)
        self.assertLess(lines[-1]["loss"], lines[0]["loss"])

    def test_epochs_that_leave_out_samples(self):
        # 50 samples: 12 batches of 4. An epoch's last update has half as many as the others.
        left_out = {"training": {"dataloader_drop_last": True, "gradient_accumulation_steps": 5, "max_steps": -1,
                                 "per_device_train_batch_size": 2, "num_train_epochs": 4}}
        self.check([(after_step(2), 1), (while_saving(6), "launcher"), (after_step(8), 0)], DATA_PARALLEL, left_out)

    def test_local_sgd(self):
        self.check([(after_step(2), 0), (while_saving(6), "launcher"), (after_step(7), 1)], DATA_PARALLEL,
                   {"training": {"local_sgd_steps": 2}})


class Elsewhere(EndToEnd):
    def test_the_schedule_is_the_same_on_any_number_of_ranks(self):
        """Complaint 21: a schedule that every process steps ends too early."""
        rates = []
        for ranks, strategy in ((1, SINGLE), (2, DATA_PARALLEL), (3, {**SHARDED, "num_processes": 3})):
            name = f"on{ranks}"
            self.launch(self.job(name, strategy, {"training": {"global_batch_size": 6, "max_steps": -1,
                                                               "num_train_epochs": 1, "warmup_steps": 2}}))
            rates.append([line["learning_rate"] for line in read_lines(self.folder / name) if "learning_rate" in line])
        self.assertEqual(len(rates[0]), 9)  # 50 samples by 6
        self.assertEqual(rates[1], rates[0])
        self.assertEqual(rates[2], rates[0])

    def test_a_random_subset_is_the_same_on_any_number_of_ranks_and_after_a_resume(self):
        def losses(name):
            return [line["loss"] for line in read_lines(self.folder / name) if "loss" in line]

        batch = {"training": {"global_batch_size": 8, "lr_scheduler_type": "constant"}}
        random = {"data": {"max_samples": 40, "max_samples_choice": "random"}}
        self.launch(self.job("expected", random, batch))
        self.launch(self.job("first", {"data": {"max_samples": 40}}, batch))
        self.launch(self.job("resumed", random, batch, SHARDED, {"training": {"max_steps": 6}}))
        self.launch(self.job("resumed", random, batch))
        for name, same in (("resumed", True), ("first", False)):
            with self.subTest(name):
                close = [abs(left / right - 1) < 1e-5 for left, right in zip(losses(name), losses("expected"))]
                self.assertEqual(len(close), 12)
                (self.assertTrue if same else self.assertFalse)(all(close))

    def test_two_shards_resume_as_one_process_and_as_two_replicas(self):
        """The global batch of 8 comes from the checkpoint: a single process would default to 4."""
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        for strategy, moment in ((SHARDED, after_step(4)), (SINGLE, after_step(7))):
            run = self.start(self.job("output", strategy))
            until(lambda: moment(output) or run.ended())
            run.kill()
        self.launch(self.job("output", DATA_PARALLEL))
        self.assert_nearly_same(output, expected)

    def test_sharded_stages_resume_as_one_process_and_back(self):
        decoder = {"model": {"config": {"model_type": "gpt2", "vocab_size": 420, "n_embd": 24, "n_layer": 3, "n_head": 3,
                                        "n_positions": 128}},
                   "data": {"task": "causal_lm", "max_length": 48}, "training": {"global_batch_size": 8}}
        changes = ({"model": {"config": None}, "data": {"max_source_length": None}}, decoder, GENERATED)
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", *changes))
        for strategy, moment in ((SHARDED_STAGES, after_step(4)), (SINGLE, after_step(7))):
            run = self.start(self.job("output", strategy, *changes))
            until(lambda: moment(output) or run.ended())
            run.kill()
        self.launch(self.job("output", SHARDED_STAGES, *changes))
        self.assert_nearly_same(output, expected)

    def assert_nearly_same(self, output, expected):
        got, wanted = results(output), results(expected)
        self.assertEqual([(line["step"], line.get("order_digest")) for line in got],
                         [(line["step"], line.get("order_digest")) for line in wanted])
        for one, other in zip(got, wanted):
            self.assertEqual(one.keys(), other.keys())
            for name in one.keys() & {"loss", "grad_norm", "eval_loss"}:
                self.assertAlmostEqual(one[name], other[name], delta=1e-5 * max(1, abs(other[name])), msg=f"{name} {one}")


class Choices(EndToEnd):
    def test_true_needs_a_checkpoint(self):
        run = self.launch(self.job("output"), "--set", "checkpoint.resume_from_checkpoint=true", code=3)
        self.assertIn("holds no checkpoint", run.err)
        self.assertFalse((self.folder / "output").exists())

    def test_other_samples_left_out(self):
        dropped, stops = {"training": {"dataloader_drop_last": True}}, {"training": {"max_steps": 6}}
        self.launch(self.job("output", dropped, stops))
        run = self.launch(self.job("output"), code=3)
        self.assertIn("each epoch left out 2 of 50 samples; with this configuration it leaves out 0", run.err)
        run = self.launch(self.job("output", dropped, {"training": {"global_batch_size": 7}}), code=3)
        self.assertIn("it leaves out 1", run.err)
        run = self.launch(self.job("few", dropped, {"data": {"max_samples": 3}}), code=3)
        self.assertIn("leaves out all 2 training samples: a batch of all ranks has 4", run.err)
        self.assertFalse((self.folder / "few").exists())

    def test_path(self):
        self.launch(self.job("expected"))
        source = self.folder / "expected/checkpoint-6"
        self.launch(self.job("output"), "--set", f"checkpoint.resume_from_checkpoint={source}")
        expected = [line for line in results(self.folder / "expected") if line["step"] > 6]
        self.assertEqual(results(self.folder / "output"), expected)
        self.assertEqual((self.folder / "output/model.safetensors").read_bytes(),
                         (self.folder / "expected/model.safetensors").read_bytes())

    def test_missing_path(self):
        run = self.launch(self.job("output"), "--set", f"checkpoint.resume_from_checkpoint={self.folder}/nowhere", code=3)
        self.assertIn("nowhere", run.err)

    def test_folders_of_other_programs_are_named(self):
        kinds = {"trainer": (["model.safetensors", "optimizer.pt", "trainer_state.json"], "optimizer.pt", "model.path: "),
                 "adapter": (["adapter_model.safetensors", "optimizer.pt"], "is a pickle", "lora.path: "),
                 "accelerate": (["pytorch_model.bin", "optimizer.bin", "random_states_0.pkl"], "Accelerate",
                                "save_pretrained"),
                 "pieces": (["pytorch_model_fsdp_0/.metadata", "optimizer_0/.metadata"], "FSDP", "merge-weights"),
                 "deepspeed": (["global_step5/mp_rank_00_model_states.pt", "zero_to_fp32.py"], "DeepSpeed",
                               "zero_to_fp32.py")}
        for kind, (files, what, advice) in kinds.items():
            with self.subTest(kind):
                for name in files:
                    self.write(f"{kind}/{name}", b"no file that anybody opens")
                run = self.launch(self.job("output"), "--set",
                                  f"checkpoint.resume_from_checkpoint={self.folder}/{kind}", code=3)
                self.assertIn(what, run.err)
                self.assertIn(advice, run.err)
                self.assertLessEqual(len(run.err.strip().splitlines()), 6, run.err)
        self.assertFalse((self.folder / "output").exists())

    def test_finished_run_stays_as_it_is(self):
        config = self.job("output", SHARDED, GENERATED)
        self.launch(config)
        before = self.left()
        self.launch(config)
        self.assertEqual(self.left(), before)

    def left(self):
        return {name: digest for name, digest in snapshot(self.folder / "output").items() if not name.startswith("logs/")}


if __name__ == "__main__":
    unittest.main()
