"""The installed package as a library: the example program in PREFIX/share/trainer adds a family and a metric."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from support import PATIENCE, TRAINER, read_lines

BUILD = pathlib.Path(TRAINER).parent.parent
CMAKE = shutil.which("cmake")
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)


def kappa_of(predictions):
    """Cohen's kappa of [prediction, label] pairs, written without a look at the example."""
    count = len(predictions)
    agreement = sum(prediction == label for prediction, label in predictions) / count
    predicted, labeled = (collections.Counter(pair[side] for pair in predictions) for side in (0, 1))
    chance = sum(predicted[name] * labeled[name] for name in labeled) / count ** 2
    return (agreement - chance) / (1 - chance)


@unittest.skipUnless(TRAINER and CMAKE and (BUILD / "cmake_install.cmake").exists(), "needs cmake and the build folder")
class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-library-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, ignore_errors=True)
        cls.prefix = cls.folder / "moved"
        installed = cls.folder / "prefix"
        for component in ("programs", "development"):  # libtorch is where the build found it
            cls.run_in(cls.folder, CMAKE, "--install", BUILD, "--prefix", installed, "--component", component)
        installed.rename(cls.prefix)  # it can be anywhere
        cls.example = cls.folder / "example"
        shutil.copytree(cls.prefix / "share/trainer/library_example", cls.example)
        shutil.copy(cls.prefix / "share/trainer/data/examples/topics.txt", cls.example)
        settings = dict(re.findall(r"^(\w+):\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE))
        same = [f"-D{name}={settings[name]}" for name in ("CMAKE_BUILD_TYPE", "CMAKE_CXX_FLAGS", "CMAKE_CXX_COMPILER", "TRAINER_DEPS")
                if settings.get(name)]
        cls.run_in(cls.example, CMAKE, "-B", "build", f"-DCMAKE_PREFIX_PATH={cls.prefix}", *same)
        cls.run_in(cls.example, CMAKE, "--build", "build", "--parallel", "2", patience=5 * PATIENCE)
        cls.my_trainer("tokenize", "train", "--layout", "bert", "--input", "topics.txt", "--format", "delimited",
                       "--vocab_size", "400", "--output", "tokenizer")

    @staticmethod
    def run_in(folder, *command, patience=PATIENCE, code=0):
        environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
        environment.pop("TRAINER_PROGRAMS", None)
        done = subprocess.run(list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True,
                              check=False, timeout=patience, stdin=subprocess.DEVNULL)
        if done.returncode != code:
            raise AssertionError(f"{command} returned {done.returncode}:\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    @classmethod
    def my_trainer(cls, *words, code=0):
        return cls.run_in(cls.example, "build/my-trainer", *words, code=code)

    def test_headers_include_only_installed_ones(self):
        headers = self.prefix / "include/trainer"
        found = list(headers.rglob("*.h"))
        self.assertGreater(len(found), 50)
        for header in found:
            for name in INCLUDE.findall(header.read_text()):
                self.assertTrue((headers / name).exists(), f"{header.relative_to(headers)} includes {name}")

    def test_check_builds_the_family(self):
        self.assertIn("BagOfWords", self.my_trainer("check", "--config_file", "job.yaml"))
        job = (self.example / "job.yaml").read_text()
        (self.example / "mistaken.yaml").write_text(job.replace("vocab_size: 400, ", ""))
        mistake = self.my_trainer("check", "--config_file", "mistaken.yaml", code=2)
        self.assertIn("vocab_size is required", mistake)

    def test_trains_alike_on_one_rank_and_on_two(self):
        losses = {}
        for name, words in {"one": ("NO", "1"), "ddp": ("MULTI_CPU", "2"), "fsdp": ("FSDP", "2")}.items():
            settings = (f"distributed_type={words[0]}", f"num_processes={words[1]}", f"output_dir={name}",
                        "training.global_batch_size=8", f"training.per_device_train_batch_size={8 // int(words[1])}",
                        "training.learning_rate=3e-3",  # at the file's 1e-2, roundings grow a thousandfold in 60 updates
                        "evaluation.generate=true")
            self.my_trainer("launch", "--config_file", "job.yaml", *(f"--set={setting}" for setting in settings))
            output = self.example / name
            lines = read_lines(output)
            losses[name] = [line["loss"] for line in lines if "loss" in line]
            self.assertEqual(len(losses[name]), 60)
            self.assertLess(losses[name][-1], losses[name][0])
            measured = [line["eval_cohen_kappa"] for line in lines if "eval_cohen_kappa" in line]
            self.assertEqual(len(measured), 3)
            predictions = [json.loads(line) for line in (output / "predictions.jsonl").read_text().splitlines()]
            pairs = [(one["prediction"], one["label"]) for one in predictions]
            self.assertAlmostEqual(measured[-1], kappa_of(pairs), places=12)
            self.assertEqual(json.loads((output / "config.json").read_text())["model_type"], "bag_of_words")
        for name in ("ddp", "fsdp"):
            for one, other in zip(losses["one"], losses[name], strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4 * max(0.1, abs(one)))
        best = self.my_trainer("checkpoint", "list", "one")
        self.assertIn("best cohen_kappa", best)
        evaluated = self.my_trainer("eval", "--config_file", "job.yaml", "--set", "output_dir=one", "--metrics",
                                    "cohen_kappa", "--json")
        self.assertIn('"eval_cohen_kappa"', evaluated)

    def test_trainer_itself_knows_neither(self):
        trainer = self.prefix / "bin/trainer"
        told = self.run_in(self.example, trainer, "check", "--config_file", "job.yaml", code=2)
        self.assertIn("cohen_kappa", told)

    def test_says_where_the_programs_are_missing(self):
        done = subprocess.run(["build/my-trainer", "--version"], cwd=self.example, capture_output=True, text=True,
                              check=False, env={**os.environ, "TRAINER_PROGRAMS": "/nowhere"})
        self.assertEqual(done.returncode, 4)
        self.assertIn("/nowhere/trainer", done.stderr)
        self.assertIn("TRAINER_PROGRAMS", done.stderr)


if __name__ == "__main__":
    unittest.main()
