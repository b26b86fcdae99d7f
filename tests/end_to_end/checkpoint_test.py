"""Checkpoints from a user's point of view: the commands, failed saves, and damaged checkpoints that are skipped."""

import json
import os
import subprocess
import unittest
from unittest import mock

from support import MARK, PATIENCE, TRAINER, EndToEnd, read_lines, results, snapshot

SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
LORA = {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": ["q", "v"]}


class Checkpoints(EndToEnd):
    def command(self, *words, code=0):
        run = subprocess.run([TRAINER, "checkpoint", *map(str, words)], env={**os.environ, MARK: self.mark},
                             capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def steps(self, output):
        return sorted(int(path.name.split("-")[1]) for path in output.glob("checkpoint-*"))

    def damage(self, path):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 4
        path.write_bytes(content)


class Commands(Checkpoints):
    def test_list_verify_prune_export(self):
        output = self.folder / "output"
        self.launch(self.job("output", SHARDED, {"evaluation": {"eval_steps": 3}}))
        self.assertEqual(os.readlink(output / "latest"), "checkpoint-12")
        self.check_list(output)
        self.check_export(output)
        self.check_verify(output)
        self.check_prune(output)

    def check_list(self, output):
        rows = json.loads(self.command("list", output, "--json").stdout)
        self.assertEqual([row["step"] for row in rows], [3, 6, 9, 12])
        self.assertEqual([row["problem"] for row in rows], [""] * 4)
        self.assertEqual({row["ranks"] for row in rows}, {2})
        self.assertEqual([sorted(row["metrics"]) for row in rows], [["eval_loss"]] * 4)
        self.assertIn("latest", rows[-1]["marks"])
        best = min(rows, key=lambda row: row["metrics"]["eval_loss"])
        self.assertEqual([row["step"] for row in rows if "best loss" in row["marks"]], [best["step"]])
        text = self.command("list", output).stdout
        self.assertEqual(len(text.splitlines()), 4)
        self.assertIn("eval_loss", text)
        self.assertIn("contains none", self.command("list", self.folder, code=3).stderr)

    def check_export(self, output):
        exported = self.folder / "exported"
        self.command("export", output / "latest", exported)
        for name in ("model.safetensors", "config.json", "spiece.model"):
            self.assertEqual((exported / name).read_bytes(), (output / name).read_bytes(), name)
        self.assertIn("already exists", self.command("export", output / "latest", exported, code=2).stderr)
        refused = self.command("export", output / "latest", self.folder / "shared", "--format", "megatron", code=2)
        self.assertIn("LLaMA's architecture only", refused.stderr)
        self.assertFalse((self.folder / "shared").exists())

    def check_verify(self, output):
        self.assertEqual(self.command("verify", output).stdout.count("intact"), 4)
        self.assertIn("intact", self.command("verify", output / "checkpoint-6").stdout)
        self.damage(output / "checkpoint-6/rank-00001.safetensors")
        run = self.command("verify", output, code=3)
        self.assertIn("checkpoint-6/rank-00001.safetensors is damaged", run.stdout)
        self.assertEqual(run.stdout.count("intact"), 3)

    def check_prune(self, output):
        (output / ".checkpoint-15.partial").mkdir()
        before = snapshot(output)
        self.assertIn("would remove checkpoint-3", self.command("prune", output, "--keep", 2, "--dry_run").stdout)
        self.assertEqual(snapshot(output), before)
        self.command("prune", output, "--keep", 2)
        self.assertEqual(self.steps(output), [6, 9, 12])  # 6 is damaged: it neither counts nor is removed
        self.assertFalse((output / ".checkpoint-15.partial").exists())
        self.assertIn("--keep", self.command("prune", output, code=2).stderr)

    def test_a_checkpoint_that_was_moved_away_to_be_replaced(self):
        """Without RENAME_EXCHANGE (NFS), a crash can leave the only copy of a checkpoint in the folder .old."""
        output = self.folder / "output"
        self.launch(self.job("output", {"evaluation": None}))
        moved = output / ".checkpoint-12.partial.old"
        (output / "checkpoint-12").rename(moved)
        before = snapshot(output)
        rows = json.loads(self.command("list", output, "--json").stdout)
        self.assertEqual([(row["step"], row["problem"]) for row in rows], [(3, ""), (6, ""), (9, ""), (12, "")])
        self.assertNotIn("unfinished", self.command("list", output).stdout)
        self.assertEqual(self.command("verify", output).stdout.count("intact"), 4)
        for number, name in enumerate(("checkpoint-12", "latest")):
            self.assertIn("intact", self.command("verify", output / name).stdout)
            exported = self.folder / f"exported-{number}"
            self.command("export", output / name, exported)
            self.assertEqual((exported / "model.safetensors").read_bytes(), (output / "model.safetensors").read_bytes())
        self.assertEqual(snapshot(output), before)
        self.assertIn("would remove checkpoint-3\nwould remove checkpoint-6\nwould remove checkpoint-9",
                      self.command("prune", output, "--keep", 1, "--dry_run").stdout)
        self.assertEqual(snapshot(output), before)
        self.command("prune", output, "--keep", 1)
        self.assertEqual(self.steps(output), [12])
        (output / "checkpoint-12").rename(moved)
        self.damage(moved / "manifest.json")
        self.assertIn("contains none", self.command("verify", output, code=3).stderr)

    def test_export_of_adapters(self):
        output, exported = self.folder / "output", self.folder / "exported"
        self.launch(self.job("output", SHARDED, {"model": {"config": None, "path": str(self.base_model())},
                                                 "lora": LORA}))
        self.command("export", output / "checkpoint-12", exported)
        for name in ("adapter_model.safetensors", "adapter_config.json"):
            self.assertEqual((exported / name).read_bytes(), (output / name).read_bytes(), name)
        self.assertFalse((exported / "model.safetensors").exists())
        refused = self.command("export", output / "checkpoint-12", self.folder / "shared", "--format", "megatron", code=2)
        self.assertIn("a checkpoint of adapters", refused.stderr)


class Best(Checkpoints):
    """checkpoint.metric_for_best_model: each checkpoint, also the last, is judged by the metrics measured at it."""

    def best(self, output, changes):
        """Launches the job. Returns the run, its evaluation losses by step, and the steps of its checkpoints."""
        run = self.launch(self.job(output.name, SHARDED, {"checkpoint": {"metric_for_best_model": "loss"}}, changes))
        losses = {line["step"]: line["eval_loss"] for line in read_lines(output) if "eval_loss" in line}
        return run, losses, self.steps(output)

    def recorded(self, output):
        return {row["step"]: row["metrics"] for row in json.loads(self.command("list", output, "--json").stdout)}

    def test_steps_of_evaluations_and_saves_may_differ(self):
        output = self.folder / "output"
        run, losses, steps = self.best(output, {"evaluation": {"eval_steps": 5}})
        self.assertEqual(sorted(losses), [3, 5, 6, 9, 10, 12])
        self.assertEqual(self.recorded(output), {step: {"eval_loss": losses[step]} for step in (3, 6, 9, 12)})
        best = min((3, 6, 9, 12), key=losses.get)
        self.assertIn(f"best loss: checkpoint-{best}\n", run.out)

    def test_the_last_one_may_be_the_best(self):
        output = self.folder / "output"
        _, losses, steps = self.best(output, {"checkpoint": {"save_total_limit": 1}})
        self.assertEqual(min((3, 6, 9, 12), key=losses.get), 12, "this job improves until its end")
        self.assertEqual(steps, [12])

    def test_an_older_best_is_kept_and_resuming_keeps_metrics(self):
        expected, output = self.folder / "expected", self.folder / "output"
        rough = {"learning_rate": 3.0, "lr_scheduler_type": "constant"}

        def run(output, steps):
            return self.best(output, {"checkpoint": {"save_total_limit": 1}, "training": {**rough, "max_steps": steps}})

        _, losses, steps = run(expected, 6)
        self.assertLess(losses[3], losses[6], "this job gets worse")
        self.assertEqual(steps, [3, 6])
        run(output, 4)
        _, _, steps = run(output, 6)
        self.assertEqual(steps, [3, 6])
        self.assertEqual(self.recorded(output), self.recorded(expected))
        self.assertEqual(self.recorded(output), {step: {"eval_loss": losses[step]} for step in steps})

    def test_missing_metrics_are_reported(self):
        output = self.folder / "output"
        run = self.launch(self.job("output", SHARDED, {"checkpoint": {"metric_for_best_model": "loss"},
                                                       "data": {"validation": None}}))
        self.assertIn("no checkpoint in", run.err)
        self.assertIn("eval_loss", run.err)
        pruned = self.command("prune", output, "--keep", 2, "--best", "loss")
        self.assertIn("no checkpoint in", pruned.stderr)
        self.assertEqual(self.steps(output), [9, 12])


class Damaged(Checkpoints):
    def test_falls_back_to_an_older_checkpoint_and_names_the_damaged_ones(self):
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        self.launch(self.job("output", SHARDED))
        self.damage(output / "checkpoint-12/rank-00000.safetensors")
        (output / "checkpoint-9/trainer_state.json").unlink()
        (output / "model.safetensors").unlink()
        run = self.launch(self.job("output", SHARDED))
        self.assertIn("skipped a newer checkpoint", run.err)
        self.assertIn("checkpoint-12/rank-00000.safetensors is damaged", run.err)
        self.assertIn("checkpoint-9/trainer_state.json is missing", run.err)
        self.assertIn("checkpoint-6 (step 6)", run.err)
        self.assert_same_run(output, expected)
        self.assertEqual(self.command("verify", output).stdout.count("intact"), 4)


class Megatron(Checkpoints):
    """Any strategy can start from a model in Megatron's layout, with the same results as from Hugging Face's folder."""

    LLAMA = {"model_type": "llama", "vocab_size": 420, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
             "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128}
    CAUSAL = {"data": {"task": "causal_lm", "max_length": 48, "max_source_length": None}, "evaluation": None,
              "training": {"max_steps": 3, "global_batch_size": 4}}
    SHARED = ["--format", "megatron", "--tensor_parallel", "2", "--pipeline_parallel", "2"]

    def path(self, name):
        return {"model": {"config": None, "path": str(self.folder / name)}}

    def losses(self, name, *changes):
        self.launch(self.job(name, {"model": {"config": None}}, self.CAUSAL, *changes))
        return [line["loss"] for line in read_lines(self.folder / name) if "loss" in line]

    def test_round_trip(self):
        for tied in (False, True):
            with self.subTest(tied=tied):
                self.check_there_and_back(f"tied-{tied}-", {"model": {"config": {**self.LLAMA, "tie_word_embeddings": tied}}})

    def check_there_and_back(self, kind, model):
        run = f"{kind}run"
        self.losses(run, model)
        checkpoint = self.folder / run / "checkpoint-3"
        self.command("export", checkpoint, self.folder / f"{kind}hub")
        self.command("export", checkpoint, self.folder / f"{kind}shared", *self.SHARED)
        self.command("export", self.folder / f"{kind}shared", self.folder / f"{kind}back")
        expected, back = snapshot(self.folder / f"{kind}hub"), snapshot(self.folder / f"{kind}back")
        self.assertEqual(back, expected)
        self.assertEqual((self.folder / f"{kind}shared/latest_checkpointed_iteration.txt").read_text(), "3")
        whole = self.losses(f"{kind}whole", self.path(f"{kind}hub"))
        for name, strategy in (("fsdp", SHARDED), ("tp", {"distributed_type": "MULTI_CPU", "num_processes": 2,
                                                          "parallelism_config": {"parallelism_config_tp_size": 2}}),
                               ("pp", {"distributed_type": "MULTI_CPU", "num_processes": 2,
                                       "parallelism_config": {"parallelism_config_pp_size": 2}})):
            for mine, theirs in zip(self.losses(kind + name, self.path(f"{kind}shared"), strategy), whole, strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-5 * theirs)
        self.assertEqual(self.losses(f"{kind}one", self.path(f"{kind}shared")), whole)

    def test_unsupported_exports_and_loads_are_refused(self):
        self.losses("run", {"model": {"config": self.LLAMA}})
        checkpoint, shared = self.folder / "run/checkpoint-3", self.folder / "shared"
        refused = self.command("export", checkpoint, shared, "--format", "megatron", "--tensor_parallel", "4", code=2)
        self.assertIn("num_key_value_heads is 2, which is not a multiple of tensor parallel 4", refused.stderr)
        self.assertIn("--format megatron", self.command("export", checkpoint, shared, "--tensor_parallel", "2",
                                                        code=2).stderr)
        self.assertFalse(shared.exists())
        self.command("export", checkpoint, shared, *self.SHARED)
        self.assertIn("already", self.command("export", checkpoint, shared, *self.SHARED, code=2).stderr)
        (shared / "iter_0000003/mp_rank_01_001/model.safetensors").unlink()
        refused = self.launch(self.job("output", self.CAUSAL, self.path("shared")), code=3)
        self.assertIn("mp_rank_01_001/model.safetensors is missing", refused.err)
        pickle = shared / "iter_0000003/mp_rank_01_001/model_optim_rng.pt"
        pickle.write_bytes(b"nothing that anybody opens")
        for config in (True, False):
            if not config:
                (shared / "config.json").unlink()
                for rank in ("00_000", "00_001", "01_000"):
                    (shared / f"iter_0000003/mp_rank_{rank}/model.safetensors").rename(
                        shared / f"iter_0000003/mp_rank_{rank}/model_optim_rng.pt")
            refused = self.launch(self.job("output", self.CAUSAL, self.path("shared")), code=3)
            self.assertIn("pickles, which are not read", refused.err)
            self.assertIn("safetensors.torch.save_file", refused.err)
            self.assertLessEqual(len(refused.err.strip().splitlines()), 7, refused.err)
        self.assertFalse((self.folder / "output").exists())


class FailedSaves(Checkpoints):
    """Saving the second checkpoint meets a full disk, a broken disk, or a kill."""

    def run_with(self, fault, *changes, code=0):
        with mock.patch.dict(os.environ, {"TRAINER_INJECT": fault}):
            return self.launch(self.job("output", SHARDED, *changes), code=code)

    def test_a_full_disk_does_not_stop_the_run(self):
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        for rank, operation in ((0, 1), (1, 4), (0, 25)):
            run = self.run_with(f"enospc:rank={rank},step=6,file={operation}")
            self.assertIn("checkpoint-6 was not saved; the run continues", run.err)
            self.assertIn("the disk is full", run.err)
            self.assertEqual(self.steps(output), [3, 9, 12])
            self.assert_same_run(output, expected)
            self.assertEqual(list(output.glob(".checkpoint*")), [])
            for path in sorted(output.rglob("*"), reverse=True):
                path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()

    def test_asynchronous_saves_are_identical(self):
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        run = self.run_with("enospc:rank=1,step=6,file=4", {"checkpoint": {"async_save": True, "hash": "sha256"}})
        self.assertIn("checkpoint-6 was not saved; the run continues", run.err)
        self.assert_same_run(output, expected)
        self.assertEqual(self.steps(output), [3, 9, 12])
        for step in (3, 9, 12):
            name = f"checkpoint-{step}/rank-00001.safetensors"
            self.assertEqual((output / name).read_bytes(), (expected / name).read_bytes())
        self.assertEqual(self.command("verify", output).stdout.count("intact"), 3)

    def test_a_failed_save_can_stop_the_run(self):
        run = self.run_with("enospc:rank=0,step=6,file=9", {"checkpoint": {"on_error": "stop"}}, code=4)
        self.assertIn("the disk is full", run.err)
        self.assertEqual(self.steps(self.folder / "output"), [3])

    def test_the_last_save_must_succeed(self):
        often = {"checkpoint": {"save_steps": 5}}
        run = self.run_with("eio:rank=1,step=12,file=3", often, code=4)
        self.assertIn("the disk reports an error", run.err)
        self.assertEqual(self.steps(self.folder / "output"), [5, 10])
        self.launch(self.job("output", SHARDED, often))  # resumes from 10
        self.assertEqual(self.steps(self.folder / "output"), [5, 10, 12])

    def test_killed_at_an_operation(self):
        expected, output = self.folder / "expected", self.folder / "output"
        self.launch(self.job("expected", SHARDED))
        run = self.run_with("kill:rank=0,step=6,file=30", code=137)
        self.assertIn("killed", run.err.lower())
        self.launch(self.job("output", SHARDED))
        self.assert_same_run(output, expected)


if __name__ == "__main__":
    unittest.main()
