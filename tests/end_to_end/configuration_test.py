"""Broken configuration files from a user's point of view.

tests/config/bad holds one broken file per mistake, and next to it the expected output of `trainer check`. After a change
of messages: WRITE_EXPECTED=1 TRAINER_BIN=… python3 -m unittest configuration_test.BadFiles, then read the diff."""

import os
import shutil
import subprocess
import unittest

from support import PATIENCE, REPOSITORY, TRAINER, EndToEnd, snapshot

BAD = REPOSITORY / "tests/config/bad"
CONFIGURATION, INPUT = 2, 3


def trainer(*words, folder, **environment):
    """The finished process, isolated from the terminal and from the user's own settings."""
    clean = {key: value for key, value in os.environ.items()
             if not key.startswith(("ACCELERATE_", "FSDP_", "TRAINER_", "MEGATRON_", "PARALLELISM_"))}
    clean["HF_HUB_CACHE"] = "/hub"
    return subprocess.run([TRAINER, *map(str, words)], cwd=folder, env={**clean, **environment}, text=True,
                          errors="backslashreplace", stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE,
                          check=False)


class BadFiles(EndToEnd):
    def setUp(self):
        super().setUp()
        self.bad = self.folder / "bad"
        shutil.copytree(BAD, self.bad)

    def test_each_reports_its_mistake_and_writes_nothing(self):
        files = sorted(path.name for path in BAD.iterdir() if path.suffix in (".yaml", ".json"))
        self.assertGreaterEqual(len(files), 120)
        before = snapshot(self.bad)
        for name in files:
            with self.subTest(name):
                done = trainer("check", "--config_file", name, folder=self.bad)
                said = f"exit {done.returncode}\n{done.stderr}".replace(f"{self.bad}/", "")
                expected = BAD / f"{name}.txt"
                if os.environ.get("WRITE_EXPECTED"):
                    expected.write_text(said)
                self.assertEqual(said, expected.read_text())
                self.assertIn(done.returncode, (CONFIGURATION, INPUT))
                self.assertEqual(done.stdout, "")
                launched = trainer("launch", "--config_file", name, folder=self.bad)
                self.assertEqual(launched.returncode, done.returncode, launched.stderr)
        written = {name for name in snapshot(self.bad) if not name.startswith("out/")} - set(before)
        self.assertEqual(written, set())

    def test_no_expectation_without_its_file(self):
        for path in BAD.glob("*.txt"):
            self.assertTrue(path.with_suffix("").exists(), path.name)


class NoFiles(EndToEnd):
    """Names that don't refer to a text file."""

    def refused(self, name, *says):
        for command in ("check", "launch", "explain"):
            done = trainer(command, "--config_file", name, folder=self.folder)
            self.assertEqual(done.returncode, CONFIGURATION, done.stderr)
            for text in (str(name), *says):
                self.assertIn(text, done.stderr)

    def test_missing(self):
        self.refused("none.yaml", "No such file")

    def test_folder(self):
        (self.folder / "folder.yaml").mkdir()
        self.refused("folder.yaml", "folder")

    def test_pipe(self):
        os.mkfifo(self.folder / "pipe.yaml")
        self.refused("pipe.yaml", "not a regular file")

    def test_device(self):
        self.refused("/dev/zero", "not a regular file")

    @unittest.skipIf(os.geteuid() == 0, "root may read everything")
    def test_unreadable(self):
        path = self.folder / "mine.yaml"
        path.write_text("seed: 1\n")
        path.chmod(0)
        self.refused("mine.yaml", "Permission denied")

    def test_too_large(self):
        (self.folder / "large.yaml").write_bytes(b"# " + b"x" * (1 << 20) + b"\n")
        self.refused("large.yaml", "1048576")

    def test_link_to_itself(self):
        (self.folder / "loop.yaml").symlink_to("loop.yaml")
        self.refused("loop.yaml")


if __name__ == "__main__":
    unittest.main()
