"""checkpoint.replicas on machines without a shared folder: another machine has each checkpoint, whole, and the loss of
machine 0's disk loses nothing."""

import json
import shutil
import subprocess
import unittest

import apart_test
import elastic_test
from machines_test import RESTARTED, SECRET, SHARDED, free_port
from support import TRAINER, last_step, snapshot, until

REPLICATED = {"checkpoint": {"replicas": 2}}


def lose(folder):
    """Removes a folder in which ranks that are being killed may still write."""
    until(lambda: shutil.rmtree(folder, ignore_errors=True) or not folder.exists())


def whole(folder):
    """The steps of the checkpoints in a folder."""
    return sorted(int(path.parent.name.split("-")[1]) for path in folder.glob("checkpoint-*/manifest.json"))


class Replicated(apart_test.Apart):
    def setUp(self):
        super().setUp()
        self.output, self.elsewhere = self.folder / "output", self.folder / "elsewhere"

    def check_copies(self):
        self.assertEqual(whole(self.output), whole(self.elsewhere))
        for step in whole(self.output):
            name = f"checkpoint-{step}"
            self.assertEqual(snapshot(self.output / name), snapshot(self.elsewhere / name), name)
        verified = subprocess.run([TRAINER, "checkpoint", "verify", self.elsewhere], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertEqual([path.name for path in self.elsewhere.glob(".checkpoint-*")], [])
        outcome = json.loads((self.output / "outcome.json").read_text())
        self.assertEqual(outcome["replicated_checkpoint"], f"checkpoint-{max(whole(self.output))}")

    def test_machine_1_has_copies_of_all(self):
        runs = self.start_apart(self.job("output", apart_test.SHORT, SHARDED, REPLICATED))
        self.finish(runs, 0)
        self.assertEqual(whole(self.output), [3, 6, 8])
        self.check_copies()
        for name in ("model.safetensors", "config.json", "metrics.jsonl"):
            self.assertEqual((self.output / name).read_bytes(), (self.elsewhere / name).read_bytes(), name)
        self.expect(apart_test.SHORT, SHARDED)
        self.assert_nothing_runs()

    def test_old_copies_are_removed(self):
        limit = {"checkpoint": {"replicas": 2, "save_total_limit": 1, "async_save": True}}
        self.finish(self.start_apart(self.job("output", apart_test.SHORT, SHARDED, limit)), 0)
        self.assertEqual(whole(self.output), [8])
        self.check_copies()

    def test_signed_copies(self):
        key = self.folder / "key.pem"
        subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", key], check=True, capture_output=True)
        key.chmod(0o600)
        public = self.folder / "key.pub.pem"
        subprocess.run(["openssl", "pkey", "-in", key, "-pubout", "-out", public], check=True, capture_output=True)
        signed = {"checkpoint": {"replicas": 2, "sign": str(key)}}
        self.finish(self.start_apart(self.job("output", apart_test.SHORT, SHARDED, signed)), 0)
        self.check_copies()
        copy = self.folder / "copy/output"  # a signature names the run: output
        copy.parent.mkdir()
        self.elsewhere.rename(copy)
        verified = subprocess.run([TRAINER, "checkpoint", "verify", copy, "--key", public], capture_output=True, text=True)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def lose_disk_of_machine_0(self, *changes):
        port = free_port()
        config = self.job("output", RESTARTED, REPLICATED, *changes)
        runs = self.start_apart(config, port)
        until(lambda: last_step(self.output) >= 7 and whole(self.elsewhere))
        runs[0].kill()
        until(lambda: "restart 1 of 3" in runs[1].err)
        lose(self.output)
        newest = max(whole(self.elsewhere))
        runs[0] = self.start_apart(config, port, only=0)[0]
        self.finish(runs, 0)
        self.assertIn(f"copying checkpoint-{newest} from machine 1 (", runs[0].err)
        self.assertIn(f"checkpoint-{newest} (step {newest})", runs[0].out + runs[0].err)
        self.expect(RESTARTED, *changes)
        self.assertEqual(set(whole(self.output)) - set(whole(self.elsewhere)), set())
        self.assertEqual([step for step in whole(self.elsewhere) if step >= newest], list(range(newest, 61, 5)))
        self.assert_nothing_runs()

    def test_disk_of_machine_0_is_lost(self):
        self.lose_disk_of_machine_0(SHARDED)

    def test_disk_of_machine_0_is_lost_while_saving_beside_training(self):
        self.lose_disk_of_machine_0(SHARDED, apart_test.BESIDE)

    def test_disk_of_machine_1_is_lost(self):
        port = free_port()
        config = self.job("output", RESTARTED, SHARDED, REPLICATED)
        runs = self.start_apart(config, port)
        until(lambda: last_step(self.output) >= 7 and whole(self.elsewhere))
        runs[1].kill()
        until(lambda: "restart 1 of 3" in runs[0].err)
        lose(self.elsewhere)
        runs[1] = self.start_apart(config, port, only=1)[0]
        self.finish(runs, 0)
        self.expect(RESTARTED, SHARDED)
        self.check_copies()

    def test_damaged_checkpoint_of_machine_0_is_replaced(self):
        config = self.job("output", apart_test.SHORT, SHARDED, REPLICATED)
        self.finish(self.start_apart(config), 0)
        damaged = self.output / "checkpoint-8/rank-00003.safetensors"
        content = damaged.read_bytes()
        damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        runs = self.start_apart(config)
        self.finish(runs, 0)
        self.assertIn("copying checkpoint-8 from machine 1 (", runs[0].err)
        self.assertEqual(damaged.read_bytes(), content)
        self.assertNotIn("skipped a newer checkpoint", runs[0].out + runs[0].err)

    def test_more_copies_than_machines(self):
        runs = self.start_apart(self.job("output", apart_test.SHORT, SHARDED, {"checkpoint": {"replicas": 3}}))
        self.finish(runs, 2)
        for run in runs:
            self.assertIn("checkpoint.replicas is 3, but num_machines is 2: each copy of a checkpoint needs its own "
                          "machine", run.err)


class ElasticReplicated(elastic_test.OneAddress):
    """Machines join and leave, each with its own folder, two of which have every checkpoint."""

    def setUp(self):
        super().setUp()
        self.config = self.job("output", elastic_test.LONG, REPLICATED)

    def elsewhere(self, number):
        return self.output if number == 0 else self.folder / f"elsewhere-{number}"

    def start_machine(self, number, *flags, secret=SECRET):
        return super().start_machine(number, "--output_dir", str(self.elsewhere(number)), *flags, secret=secret)

    def start_alone(self, checkpoint):
        return super().start_alone({**checkpoint, "replicas": 2})

    test_machine_0_is_lost_and_comes_back = None  # elected_test.py: the machines need an address each

if __name__ == "__main__":
    unittest.main()
