"""Signed checkpoints: checkpoint.sign, checkpoint.trusted_key, `trainer checkpoint verify --key`, and openssl alone."""

import json
import os
import shutil
import subprocess
import unittest

from support import MARK, PATIENCE, REPOSITORY, TRAINER, EndToEnd, read_lines, snapshot

KEYS = REPOSITORY / "tests/checkpoint/keys"
SHARDED = {"distributed_type": "FSDP", "num_processes": 2}


class Signatures(EndToEnd):
    def setUp(self):
        super().setUp()
        self.key = self.private_key("openssl.pem")
        self.public = KEYS / "openssl.pub.pem"

    def private_key(self, name):
        path = self.folder / name
        shutil.copy(KEYS / name, path)
        path.chmod(0o600)
        return path

    def signed(self, key=None, public=None):
        return {"checkpoint": {"sign": str(key or self.key), "trusted_key": str(public or self.public)}}

    def checkpoint(self, *words, code=0):
        run = subprocess.run([TRAINER, "checkpoint", *map(str, words)], env={**os.environ, MARK: self.mark},
                             capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        return run

    def verify(self, folder, code=0, key=None):
        return self.checkpoint("verify", folder, "--key", key or self.public, code=code).stdout

    def test_of_sharded_ranks_is_verified_by_trainer_and_by_others(self):
        output = self.folder / "output"
        self.launch(self.job("output", SHARDED, self.signed(),
                             {"checkpoint": {"async_save": True, "save_total_limit": 2, "metric_for_best_model": "loss"}}))
        said = self.verify(output)
        self.assertEqual(said.count("in the run 'output'"), 3, said)  # two checkpoints, the last with metrics added later
        self.assertIn("at step 12", said)
        rows = json.loads(self.checkpoint("list", output, "--json").stdout)
        self.assertEqual([row["problem"] for row in rows], [""] * 2)
        self.assertTrue(all(row["metrics"] for row in rows))
        self.checkpoint("verify", output)
        for folder in (output, output / "checkpoint-12"):
            self.check_without_trainer(folder)
        self.assertEqual(list(output.glob(".checkpoint*")), [])

    @unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
    def check_without_trainer(self, folder):
        subprocess.run(["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", self.public, "-rawin", "-in", "SHA256SUMS",
                        "-sigfile", "SHA256SUMS.sig"], cwd=folder, check=True, capture_output=True)
        subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True)

    def test_a_checkpoint_of_another_key_is_used_only_without_trusted_key(self):
        """The stranger's run has other weights, but all that an unsigned resume compares."""
        output, stranger = self.folder / "output", self.folder / "stranger"
        openssh = self.private_key("openssh")
        self.launch(self.job("output", self.signed(), {"training": {"max_steps": 6}}))
        self.launch(self.job("stranger", self.signed(openssh, KEYS / "openssh.pub"), {"training": {"learning_rate": 1.0}}))
        planted = output / "checkpoint-9"
        shutil.copytree(stranger / "checkpoint-9", planted)
        before = snapshot(output)

        run = self.launch(self.job("output", self.signed(), {"training": {"max_steps": 9}}))
        self.assertIn("skipped a newer checkpoint", run.err)
        self.assertIn("signed by another key", run.err)
        self.assertIn("checkpoint-6 (step 6)", run.err)
        self.assertNotEqual(snapshot(output), before)
        self.assertEqual(self.verify(output).count("intact"), 4)

        shutil.rmtree(planted)
        shutil.copytree(stranger / "checkpoint-9", planted)
        self.assertIn("signed by another key", self.verify(output, code=3))
        run = self.launch(self.job("output", {"training": {"max_steps": 9}}))
        self.assertIn("checkpoint-9 (step 9)", run.err)
        refused = self.launch(self.job("output", self.signed(),
                                       {"checkpoint": {"resume_from_checkpoint": str(planted)}}), code=3)
        self.assertIn("signed by another key", refused.err)

    def test_another_run_of_the_same_key_must_be_named(self):
        self.launch(self.job("first", self.signed(), {"training": {"max_steps": 6}}))
        shutil.copytree(self.folder / "first/checkpoint-6", self.folder / "second/checkpoint-6")
        refused = self.launch(self.job("second", self.signed()), code=3)
        self.assertIn("was signed for the run 'first'", refused.err)
        named = {"checkpoint": {"resume_from_checkpoint": str(self.folder / "first/checkpoint-6")}}
        shutil.rmtree(self.folder / "second")
        self.launch(self.job("second", self.signed(), named, {"training": {"max_steps": 9}}))
        self.assertEqual(read_lines(self.folder / "second")[-1]["step"], 9)
        self.assertIn("in the run 'second' at step 9", self.verify(self.folder / "second"))

    def test_exports_carry_a_signature(self):
        output, exported = self.folder / "output", self.folder / "exported"
        self.launch(self.job("output", SHARDED, self.signed()))
        self.checkpoint("export", output / "latest", exported, "--key", self.public, "--sign", self.key)
        self.assertIn("in the run 'exported'", self.verify(exported))
        self.check_without_trainer(exported)
        self.assertIn("other files", self.checkpoint("export", output / "latest", exported, "--sign", self.key, code=2).stderr)
        (exported / "modeling.py").write_text("")
        self.assertIn("modeling.py is not signed", self.verify(exported, code=3))
        (output / "checkpoint-12/config.json").write_text("{}")
        refused = self.checkpoint("export", output / "checkpoint-12", self.folder / "again", "--key", self.public, code=3)
        self.assertIn("checkpoint-12/config.json", refused.stderr)
        self.assertFalse((self.folder / "again").exists())

    def test_an_unsigned_run_removes_the_signature_of_its_model(self):
        output = self.folder / "output"
        self.launch(self.job("output", self.signed(), {"training": {"max_steps": 6}}))
        self.launch(self.job("output", {"training": {"max_steps": 9}}))
        self.assertFalse((output / "SHA256SUMS").exists())
        self.assertIn("is not signed: it has no SHA256SUMS", self.verify(output, code=3))

    def test_a_key_that_others_can_read_is_refused_before_the_ranks_start(self):
        self.key.chmod(0o644)
        for command in ("check", "launch"):
            run = self.trainer(command, "--config_file", self.job("output", self.signed())).wait()
            self.assertEqual(run.code, 2, run.out + run.err)
            self.assertIn("chmod 600", run.out + run.err)
            self.assertIn("checkpoint.sign", run.out + run.err)
        self.assertFalse((self.folder / "output").exists())


if __name__ == "__main__":
    unittest.main()
