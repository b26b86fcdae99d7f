"""Under limits of the account, each command does its work or says which limit it has reached: never a bug of ours, never
a signal."""

import shutil
import unittest

from support import SAMPLES, EndToEnd

LIMITS = (400_000, 530_000, 540_000, 550_000, 700_000)  # KiB; libtorch alone takes about 512 MiB
FILE_LIMITS = (1, 10, 40, 64, 100, 250, 400)  # KiB; the largest file is a tokenizer's, of 337 KiB
LORA = {"lora": {"r": 4, "target_modules": ["q", "v"]}, "training": {"max_steps": 1}, "evaluation": None,
        "data": {"validation": None}}


@unittest.skipIf(shutil.which("prlimit") is None, "prlimit is not installed")
class Limits(EndToEnd):
    def limited(self, limit, *words):
        return self.trainer(*words, before=("prlimit", f"--as={limit * 1024}")).wait()

    def test_addresses(self):
        """ulimit -v: memory is short."""
        based = {"model": {"config": None, "path": str(self.base_model())}, "tokenizer": None}
        self.launch(self.job("adapter", based, LORA))
        job = self.job("output", {"training": {"max_steps": 2}})
        codes = set()
        for limit in LIMITS:
            commands = (("check", "--config_file", job), ("launch", "--config_file", job),
                        ("tokenize", "train", "--input", SAMPLES, "--format", "delimited", "--output",
                         self.folder / f"tokenizer-{limit}", "--vocab_size", "280"),
                        ("merge", self.folder / "adapter", self.folder / f"merged-{limit}"),
                        ("generate", self.base_model(), "--prompt", "a"))
            for words in commands:
                with self.subTest(limit=limit, command=words[0]):
                    run = self.limited(limit, *map(str, words))
                    self.assertIn(run.code, (0, 4), run.err)
                    codes.add(run.code)
                    if run.code == 4:
                        self.assertRegex(run.err, "ulimit -v|out of memory|allocate memory")
                    self.assertNotRegex(run.err, "internal error|bug in trainer|terminate called")
                shutil.rmtree(self.folder / "output", ignore_errors=True)
        self.assertEqual(codes, {0, 4}, "the limits are on both sides of what the programs need")

    def test_file_sizes(self):
        """ulimit -f, by which the system kills a process that doesn't ask for an error instead."""
        codes = set()
        for ranks in (1, 2):
            sharded = {"num_processes": ranks, "distributed_type": "FSDP"} if ranks > 1 else {}
            job = self.job(f"output-{ranks}", {"training": {"max_steps": 4}}, sharded)
            for limit in FILE_LIMITS:
                with self.subTest(limit=limit, ranks=ranks):
                    limited = ("prlimit", f"--fsize={limit * 1024}")
                    run = self.trainer("launch", "--config_file", job, before=limited).wait()
                    self.assertIn(run.code, (0, 4), run.err)
                    codes.add(run.code)
                    if run.code == 4:
                        self.assertRegex(run.err, "ulimit -f")
                    self.assertNotRegex(run.err, "internal error|bug in trainer|SIGXFSZ")
            self.launch(job)  # continues from what was saved
        self.assertEqual(codes, {0, 4}, "the limits are on both sides of what a run needs")


if __name__ == "__main__":
    unittest.main()
