"""The frozen base of LoRA is used where its file is mapped; a run whose file changes ends before it saves."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from support import EndToEnd, last_step, until

INPUT = 3
LOCAL = ("ext2/ext3", "xfs", "btrfs", "tmpfs", "overlayfs", "f2fs", "zfs")
LORA = {"lora": {"r": 4}, "distributed_type": "MULTI_CPU", "num_processes": 2}
LONG = {"training": {"max_steps": 1000000}, "evaluation": None}


class InPlace(EndToEnd):
    def setUp(self):
        super().setUp()
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.folder], capture_output=True, text=True).stdout.strip()
        if kind not in LOCAL:
            self.skipTest(f"temporary files are on {kind}, where weights aren't used in place")
        self.model = self.folder / "model"
        shutil.copytree(self.base_model(), self.model)
        self.weights = self.model / "model.safetensors"

    def job(self, output, *changes):
        return super().job(output, LORA, {"model": {"config": None, "path": str(self.model)}}, *changes)

    def running(self):
        """A run that has made a few updates."""
        run = self.start(self.job("output", LONG))
        until(lambda: run.ended() or last_step(self.folder / "output") >= 5)
        return run

    def assert_refused(self, run, *says):
        run.wait()
        self.assertEqual(run.code, INPUT, run.out + run.err)
        block = run.err[run.err.index("trainer: "):]
        for text in (self.weights, *says):
            self.assertIn(str(text), block)
        self.assertLessEqual(len(block.splitlines()), 6, run.err)
        self.assert_nothing_runs()

    def test_all_ranks_map_the_file(self):
        run = self.running()
        ranks = run.ranks()
        self.assertEqual(sorted(ranks), [0, 1])
        for pid in ranks.values():
            self.assertIn(str(self.weights), pathlib.Path(f"/proc/{pid}/maps").read_text())
        run.kill_with(signal.SIGTERM)
        run.wait()
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.err)

    def test_a_file_that_is_written_to_ends_the_run(self):
        run = self.running()
        with open(self.weights, "r+b") as file:
            file.seek(-4, os.SEEK_END)
            file.write(b"\0\0\0\0")
        self.assert_refused(run, "something wrote to it")
        saved = max(int(path.name.split("-")[1]) for path in (self.folder / "output").glob("checkpoint-*"))
        self.assertLessEqual(saved, last_step(self.folder / "output") + 1)
        self.launch(self.job("output", {"training": {"max_steps": saved + 2}, "evaluation": None,
                                        "checkpoint": {"resume_from_checkpoint": "auto"}}))

    def test_a_file_that_is_truncated_ends_the_run(self):
        run = self.running()
        os.truncate(self.weights, 100)
        self.assert_refused(run)

    def test_another_file_of_its_name_leaves_the_run_alone(self):
        run = self.running()
        step = last_step(self.folder / "output")
        os.replace(self.write("new", b"not even weights"), self.weights)
        until(lambda: run.ended() or last_step(self.folder / "output") >= step + 5)
        run.kill_with(signal.SIGTERM)
        run.wait()
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.err)

    def test_a_folder_that_is_removed_leaves_the_run_alone(self):
        run = self.start(self.job("output", LONG, {"tokenizer": None}))
        until(lambda: run.ended() or last_step(self.folder / "output") >= 2)
        shutil.rmtree(self.model)
        until(lambda: run.ended() or last_step(self.folder / "output") >= 8)
        run.kill_with(signal.SIGTERM)
        run.wait()
        self.assertEqual(run.code, 128 + signal.SIGTERM, run.err)
        self.assertNotIn("was not saved", run.err)
        saved = max((self.folder / "output").glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        self.assertEqual((saved / "spiece.model").read_bytes(), (self.tokenizer / "spiece.model").read_bytes())


if __name__ == "__main__":
    unittest.main()
