"""Machines without a shared file system: machine 0 keeps the checkpoints, and the results equal those with one."""

import json
import os
import shutil
import signal
import subprocess
import unittest

import elastic_test
import three_machines_test
from machines_test import DATA_PARALLEL, RESTARTED, SECRET, SHARDED, Machines, free_port
from support import SAMPLES, TINY_T5, last_step, snapshot, until

NOT_SHARED = "output_dir is not shared: machine 0 keeps the checkpoints"
SHORT = {"training": {"max_steps": 8}}
MEDIUM = {"training": {"max_steps": 40}, "evaluation": None, "data": {"validation": None}}
BESIDE = {"checkpoint": {"async_save": True}}
LORA = {"lora": {"r": 2, "target_modules": ["q", "v"]}}


class Apart(Machines):
    """Each machine writes into its own folder: machine 1's is called elsewhere."""

    def start_apart(self, config, port=None, only=None, injected=""):
        fault = ("env", f"TRAINER_INJECT={injected}") if injected else ()
        elsewhere = ("--output_dir", str(self.folder / "elsewhere"))
        return self.start_both(config, "127.0.0.1", port or free_port(), before=(fault, fault),
                               flags=((), elsewhere), only=only)

    def model(self):
        """Changes to the job to start from a model, as LoRA requires."""
        return {"model": {"config": None, "path": str(self.base_model())}}

    def expect(self, *changes):
        """Compares the run with one on a single machine."""
        self.launch(self.job("expected", *changes))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def check_elsewhere(self):
        """The machine that keeps no checkpoints has no part of a checkpoint or model."""
        left = snapshot(self.folder / "elsewhere")
        self.assertEqual(set(left), {"logs/rank-2.log", "logs/rank-3.log"})

    def content(self, checkpoint):
        """The manifest's description of a checkpoint; checks that it lists all files."""
        manifest = json.loads((checkpoint / "manifest.json").read_text())
        self.assertEqual({file["name"] for file in manifest["files"]}, set(snapshot(checkpoint)) - {"manifest.json"})
        return {key: manifest[key] for key in ("files", "tensors", "progress", "metrics")}

    def check_whole(self, *changes):
        runs = self.start_apart(self.job("output", *changes))
        self.finish(runs, 0)
        for run in runs:
            self.assertEqual(run.err.count(NOT_SHARED), 1, run.err)
        self.expect(*changes)
        for checkpoint in ("checkpoint-3", "checkpoint-6", "checkpoint-8"):
            found, expected = (self.content(self.folder / output / checkpoint) for output in ("output", "expected"))
            self.assertEqual(found, expected, checkpoint)
        self.assertEqual(os.readlink(self.folder / "output/latest"), "checkpoint-8")
        self.check_elsewhere()
        self.assert_nothing_runs()


class SavedApart(Apart):
    """The checkpoints equal those of one machine, byte for byte."""

    def test_shards(self):
        self.check_whole(SHORT, SHARDED)

    def test_shards_beside_training(self):
        self.check_whole(SHORT, SHARDED, BESIDE)

    def test_copies_beside_training(self):
        self.check_whole(SHORT, DATA_PARALLEL, BESIDE)

    def test_adapter(self):
        self.check_whole(SHORT, SHARDED, self.model(), LORA)


class ResumedApart(Apart):
    def check_stopped(self, *changes):
        config = self.job("output", MEDIUM, *changes)
        runs = self.start_apart(config)
        until(lambda: last_step(self.folder / "output") >= 4)
        os.kill(runs[1].pid, signal.SIGTERM)
        self.finish(runs, 143)
        step = last_step(self.folder / "output")
        self.assertTrue((self.folder / f"output/checkpoint-{step}/manifest.json").exists())
        runs = self.start_apart(config)
        self.finish(runs, 0)
        self.assertIn(f"checkpoint-{step} (step {step})", runs[0].out + runs[0].err)
        self.expect(MEDIUM, *changes)
        self.check_elsewhere()

    def test_shards(self):
        self.check_stopped(SHARDED)

    def test_copies(self):
        self.check_stopped(DATA_PARALLEL, BESIDE)

    def test_adapter(self):
        self.check_stopped(SHARDED, self.model(), LORA)

    def test_named_checkpoint_of_machine_0(self):
        self.finish(self.start_apart(self.job("first", SHORT, SHARDED)), 0)
        named = {"checkpoint": {"resume_from_checkpoint": str(self.folder / "kept")}}
        shutil.move(self.folder / "first/checkpoint-6", self.folder / "kept")
        runs = self.start_apart(self.job("output", SHORT, SHARDED, named))
        self.finish(runs, 0)
        self.assertEqual((self.folder / "output/model.safetensors").read_bytes(),
                         (self.folder / "first/model.safetensors").read_bytes())

    def test_damaged_checkpoint_is_passed_over(self):
        config = self.job("output", SHORT, SHARDED)
        self.finish(self.start_apart(config), 0)
        expected = (self.folder / "output/model.safetensors").read_bytes()
        damaged = self.folder / "output/checkpoint-8/rank-00003.safetensors"
        content = bytearray(damaged.read_bytes())
        content[-1] ^= 1
        damaged.write_bytes(content)
        runs = self.start_apart(config)
        self.finish(runs, 0)
        self.assertIn("skipped a newer checkpoint", runs[0].out + runs[0].err)
        self.assertEqual((self.folder / "output/model.safetensors").read_bytes(), expected)


class RestartedApart(Apart):
    def check_comes_back(self, machine, *changes):
        port = free_port()
        config = self.job("output", RESTARTED, *changes)
        runs = self.start_apart(config, port)
        until(lambda: last_step(self.folder / "output") >= 7)
        runs[machine].kill()
        until(lambda: "restart 1 of 3" in runs[1 - machine].err)
        runs[machine] = self.start_apart(config, port, only=machine)[0]
        self.finish(runs, 0)
        self.expect(RESTARTED, *changes)
        self.check_elsewhere()
        self.assert_nothing_runs()

    def test_lost_machine_comes_back(self):
        self.check_comes_back(1, SHARDED)

    def test_lost_machine_comes_back_while_saving_beside_training(self):
        self.check_comes_back(1, SHARDED, BESIDE)

    def test_lost_leader_comes_back(self):
        self.check_comes_back(0, SHARDED)

    def test_lost_rank_is_restarted(self):
        runs = self.start_apart(self.job("output", RESTARTED, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 7)
        os.kill(runs[0].ranks()[3], signal.SIGKILL)
        self.finish(runs, 0)
        self.assertRegex(runs[0].err, r"restart 1 of 3, from .*checkpoint-")
        self.expect(RESTARTED, SHARDED)


class ElasticApart(elastic_test.OneAddress):
    """Machines join and leave, and each has its own folder."""

    def start_machine(self, number, *flags, secret=SECRET):
        folder = self.output if number == 0 else self.folder / f"elsewhere-{number}"
        return super().start_machine(number, "--output_dir", str(folder), *flags, secret=secret)

    def test_machine_0_is_lost_and_comes_back(self):
        """It has the checkpoints, so nobody succeeds it."""
        runs = [self.start_machine(number) for number in range(3)]
        self.go_on(runs, 3, updates=25)  # so that a checkpoint exists
        runs.pop(0).kill()
        for run in runs:
            until(lambda: "restart 1 of 3" in run.err)
        runs.insert(0, self.start_machine(0))
        self.go_on(runs, 3)
        self.assertFalse(any("leads the run" in run.err for run in runs))
        self.stop(runs)
        self.assert_undisturbed()

    def test_machines_join_and_leave(self):
        super().test_machines_join_and_leave()
        for number in (1, 2):
            left = snapshot(self.folder / f"elsewhere-{number}")
            self.assertEqual({name.split("-")[0] for name in left}, {"logs/rank"})


class SentOnce(three_machines_test.Switched):
    """Bytes that a resume sends to the machine that doesn't see the checkpoint."""

    LARGER = {"training": {"max_steps": 3}, "evaluation": None, "data": {"validation": None},
              "model": {"config": {**TINY_T5, "d_model": 128, "d_ff": 512, "num_layers": 2}}}

    def start_pair(self, config):
        elsewhere = ("--output_dir", str(self.folder / "elsewhere"))
        return [self.start(config, "--nnodes", "2", "--node_rank", str(number), "--master_addr",
                           three_machines_test.HOST, "--nproc_per_node", "2", *(elsewhere if number else ()),
                           before=("ip", "netns", "exec", self.spaces[number], *SECRET)) for number in (0, 1)]

    def received(self):
        counter = ("ip", "netns", "exec", self.spaces[1], "cat", "/sys/class/net/eth/statistics/rx_bytes")
        return int(subprocess.run(counter, check=True, capture_output=True, text=True).stdout)

    def check(self, strategy, most, saved_by=None):
        """`most`: the limit on bytes received by machine 1, in checkpoint sizes. `saved_by`: the saving strategy."""
        if saved_by:
            self.launch(self.job("output", self.LARGER, saved_by))
        config = self.job("output", self.LARGER, strategy, {"training": {"global_batch_size": 16}})
        self.finish(self.start_pair(config), 0)
        size = sum(path.stat().st_size for path in (self.folder / "output/checkpoint-3").glob("rank-*"))
        before = self.received()
        runs = self.start_pair(config)  # has nothing left to do
        self.finish(runs, 0)
        self.assertIn("checkpoint-3 (step 3)", runs[0].out + runs[0].err)
        share = (self.received() - before) / size
        self.assertLess(share, most)

    def test_copies(self):
        self.check(DATA_PARALLEL, 1.5)  # once, although two ranks need it

    def test_shards(self):
        self.check(SHARDED, 1.2)  # half of it is machine 1's, whose ranks then exchange weights for the model's file

    def test_shards_of_what_one_rank_saved(self):
        self.check(SHARDED, 1.2, saved_by={"distributed_type": "NO", "training": {"global_batch_size": 16}})


class FaultsApart(Apart):
    """Operations of rank 0 in a save: 1 mkdir, then its file, the other files, rank 2's file, manifest, renaming."""

    OPERATIONS = (12, 20, 28)

    def check_killed(self, *changes):
        self.launch(self.job("expected", SHORT, SHARDED, *changes))
        for operation in self.OPERATIONS:
            output = f"killed-{operation}"
            config = self.job(output, SHORT, SHARDED, *changes)
            self.finish(self.start_apart(config, injected=f"kill:rank=0,step=6,file={operation}"), 137)
            self.assertTrue((self.folder / output / "checkpoint-3").exists())
            self.finish(self.start_apart(config), 0)
            self.assert_same_run(self.folder / output, self.folder / "expected")

    def test_keeper_is_killed_in_a_save(self):
        self.check_killed()

    def test_keeper_is_killed_in_a_save_beside_training(self):
        self.check_killed(BESIDE)

    def test_full_disk_of_the_keeper(self):
        """It costs one save, and is reported once."""
        for rank, operation in ((0, 12), (1, 1), (1, 8)):
            output = f"full-{rank}-{operation}"
            runs = self.start_apart(self.job(output, SHORT, SHARDED),
                                    injected=f"enospc:rank={rank},step=6,file={operation}")
            self.finish(runs, 0)
            self.assertIn("checkpoint-6 was not saved; the run continues", runs[0].out + runs[0].err)
            self.assertFalse((self.folder / output / "checkpoint-6").exists())
            self.assertTrue((self.folder / output / "checkpoint-8/manifest.json").exists())

    def test_full_disk_may_end_the_run(self):
        config = self.job("output", SHORT, SHARDED, {"checkpoint": {"on_error": "stop"}})
        runs = self.start_apart(config, injected="enospc:rank=1,step=6,file=8")
        self.finish(runs, 4)
        for run in runs:
            self.assertIn("the disk is full", run.err)


class OtherInputs(Apart):
    """Each machine reads its own files, which must be equal."""

    def check_refused(self, changes, what):
        configs = [self.job("output", SHORT, DATA_PARALLEL, self.model()),
                   self.job("elsewhere", SHORT, DATA_PARALLEL, self.model(), changes)]
        port = free_port()
        runs = [self.start_both(config, "127.0.0.1", port, only=number)[0] for number, config in enumerate(configs)]
        self.finish(runs, 3)
        for run in runs:
            self.assertIn("the machines don't train the same model on the same data", run.err)
            self.assertRegex(run.err, rf"\n  {what}: .* on rank 0, .* on rank 2\n")

    def test_data(self):
        text = SAMPLES.read_bytes()
        changed = self.write("other.txt", text.replace(b"the", b"a", 1))
        self.check_refused({"data": {"train": {"path": str(changed)}}}, "data.train")

    def test_weights(self):
        folder = self.folder / "other"
        shutil.copytree(self.base_model(), folder)
        content = (folder / "model.safetensors").read_bytes()
        header = 8 + int.from_bytes(content[:8], "little")
        (folder / "model.safetensors").write_bytes(content[:header] + bytes(len(content) - header))
        self.check_refused({"model": {"path": str(folder)}}, "its weights")


def why_no_mounts():
    """"" when this test can mount a file system that only some processes see."""
    if os.geteuid() != 0:
        return "a private mount needs root"
    if not shutil.which("unshare"):
        return "`unshare` is missing (util-linux)"
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"nothing can be mounted: {probe.stderr.strip()}"


class OtherFileSystem(Machines):
    """Machine 1 has another file system mounted at output_dir."""

    def test_same_numbers(self):
        why = why_no_mounts()
        if why:
            self.skipTest(why)
        for name, changes in (("shards", (SHORT, SHARDED)), ("copies", (SHORT, DATA_PARALLEL, BESIDE))):
            output = self.folder / name
            output.mkdir()
            mounted = ("unshare", "-m", "sh", "-c", f"mount -t tmpfs none {output} && exec \"$@\"", "sh")
            runs = self.start_both(self.job(name, *changes), "127.0.0.1", free_port(), before=((), mounted))
            self.finish(runs, 0)
            self.assertIn(NOT_SHARED, runs[0].err)
            self.launch(self.job(f"{name}-expected", *changes))
            self.assert_same_run(output, self.folder / f"{name}-expected")
            self.assertEqual(sorted(path.name for path in (output / "logs").iterdir()),
                             ["rank-0.log", "rank-1.log"])


if __name__ == "__main__":
    unittest.main()
