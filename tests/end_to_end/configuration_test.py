"""Configuration files from outside: broken ones, and the shipped examples.

tests/config/bad holds a broken file for each way to get it wrong, and beside it what `trainer check` must say. After a
change of messages: WRITE_EXPECTED=1 TRAINER_BIN=… python3 -m unittest configuration_test.BadFiles, then read the diff."""

import json
import os
import shutil
import struct
import subprocess
import unittest

from support import PATIENCE, REPOSITORY, TRAINER, EndToEnd, read_lines, snapshot

BAD = REPOSITORY / "tests/config/bad"
CONFIGS = REPOSITORY / "configs"
CONFIGURATION, INPUT = 2, 3


def trainer(*words, folder, **environment):
    """The finished process. The terminal's and the user's own settings are kept out."""
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

    def test_each_says_what_is_wrong_and_writes_nothing(self):
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
    """What a name can stand for beside a file with text."""

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
        self.refused("pipe.yaml", "no file")

    def test_device(self):
        self.refused("/dev/zero", "no file")

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


class Examples(EndToEnd):
    """Every file in configs/ is checked and started, for two updates of a tiny model."""

    def run_example(self, *files, environment=(), flags=()):
        output = self.folder / "output"
        words = ["--config_file", *files, "--set", f"output_dir={output}", "--set", "training.max_steps=2",
                 "--set", "logging.logging_steps=1", *flags]
        environment = {"MODEL": str(self.base_model()), **dict(environment)}
        checked = trainer("check", *words, folder=self.folder, **environment)
        self.assertEqual((checked.returncode, checked.stderr), (0, ""), checked.stdout)
        launched = trainer("launch", *words, folder=self.folder, **environment)
        self.assertEqual(launched.returncode, 0, launched.stderr)
        self.assertEqual([line["step"] for line in read_lines(output) if "loss" in line], [1, 2])
        return output

    def test_all_are_here(self):
        tested = {"single.yaml", "ddp.yaml", "tutorial_fsdp.yaml", "tutorial_job.yaml", "quickstart_full.yaml",
                  "quickstart_lora.yaml", "phrasebank_full.yaml", "phrasebank_lora.yaml", "mnist_ddp.yaml",
                  "bert_classification.yaml", "llama_pretraining.yaml", "llama_megatron_tp8.yaml",
                  "llama_megatron_tp2_pp2.yaml", "roleplay.yaml", "llama2_13b_tp8.yaml", "t5_base_fsdp.yaml"}
        self.assertEqual({path.name for path in CONFIGS.glob("*.yaml")}, tested)

    def test_single(self):
        self.run_example(CONFIGS / "single.yaml")

    def test_ddp(self):
        self.run_example(CONFIGS / "ddp.yaml")

    def test_quickstart(self):
        tokenizer = ("--set", f"tokenizer.path={self.tokenizer}")
        full = self.run_example(CONFIGS / "quickstart_full.yaml", flags=tokenizer)
        base = self.folder / "full"
        full.rename(base)
        output = self.run_example(CONFIGS / "quickstart_lora.yaml", flags=("--set", f"model.path={base}"))
        self.assertTrue((output / "adapter_model.safetensors").exists())

    def test_phrasebank(self):
        lines = [f"Sales rose by {i} percent .@positive" for i in range(40)]
        bank = self.folder / "bank.txt"
        bank.write_text("\n".join(lines) + "\n")
        here = {"PHRASEBANK": str(bank), "TOKENIZER": str(self.tokenizer)}
        self.run_example(CONFIGS / "phrasebank_full.yaml", environment=here,
                         flags=("--set", f"tokenizer.path={self.tokenizer}"))
        shutil.rmtree(self.folder / "output")
        self.run_example(CONFIGS / "phrasebank_lora.yaml", environment=here)

    def make_tokenizer(self, layout, vocab_size, *files):
        folder = self.folder / f"{layout}-tokenizer"
        subprocess.run([TRAINER, "tokenize", "train", "--layout", layout, "--input", *files, "--format", "text", "--output",
                        folder, "--vocab_size", str(vocab_size)], check=True, capture_output=True)
        return folder

    def test_bert(self):
        tokenizer = self.make_tokenizer("bert", 600, REPOSITORY / "data/samples/topics.txt")
        output = self.run_example(CONFIGS / "bert_classification.yaml", flags=("--set", f"tokenizer.path={tokenizer}"))
        config = json.loads((output / "config.json").read_text())
        self.assertEqual(config["id2label"], {"0": "garden", "1": "ship", "2": "shop"})
        self.assertIn("eval_accuracy", read_lines(output)[-1])
        self.assertTrue((output / "vocab.txt").exists())

    def megatron_files(self):
        """A tokenizer, and the prefix of .bin and .idx files made with it."""
        text = REPOSITORY / "data/samples/topics.txt"
        tokenizer = self.make_tokenizer("llama", 400, text)
        corpus = self.folder / "corpus"
        subprocess.run([TRAINER, "tokenize", "--tokenizer", tokenizer, "--input", text, "--format", "text",
                        "--append-eod", "--output", corpus], check=True, capture_output=True)
        return tokenizer, {"CORPUS": str(corpus)}

    def test_llama_pretraining(self):
        tokenizer, here = self.megatron_files()
        output = self.run_example(CONFIGS / "llama_pretraining.yaml", environment=here,
                                  flags=("--set", f"tokenizer.path={tokenizer}", "--set",
                                         "data.megatron.sequence_length=64"))
        self.assertTrue((output / "tokenizer.model").exists())

    def test_llama_in_megatrons_terms(self):
        """Loaded as one rank's model, trained as two stages of two ranks, gone on with under both splits."""
        tokenizer, here = self.megatron_files()
        short = ("--set", "data.megatron.sequence_length=64")
        base = self.run_example(CONFIGS / "llama_megatron_tp8.yaml", environment=here,
                                flags=("--set", f"tokenizer.path={tokenizer}", *short))
        base = base.rename(self.folder / "tp8")
        spread = CONFIGS / "llama_megatron_tp2_pp2.yaml"
        saved = self.run_example(spread, environment={"MODEL": str(base), **here}, flags=short)
        degrees = "megatron_lm_config.megatron_lm_"
        alone = ("--num_processes", "1", "--set", degrees + "tp_degree=1", "--set", degrees + "pp_degree=1")
        losses = []
        for number, split in enumerate(((), alone)):
            output = self.folder / f"resumed-{number}"
            shutil.copytree(saved, output)
            resumed = trainer("launch", "--config_file", spread, "--set", f"output_dir={output}", "--set",
                              "training.max_steps=5", "--set", "logging.logging_steps=1", *short, *split,
                              folder=self.folder, MODEL=str(base), **here)
            self.assertEqual(resumed.returncode, 0, resumed.stderr)
            losses.append([line["loss"] for line in read_lines(output) if line.get("step", 0) > 2 and "loss" in line])
        self.assertEqual(len(losses[0]), 3)
        for spread_loss, loss in zip(*losses):
            self.assertAlmostEqual(spread_loss / loss, 1, delta=1e-5)

    def test_mnist(self):
        folder = self.folder / "mnist"
        folder.mkdir()
        count = 400
        pixels = bytes(((image % 10) * 25 + column) % 256 for image in range(count) for column in range(784))
        (folder / "train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 0x803, count, 28, 28) + pixels)
        (folder / "train-labels-idx1-ubyte").write_bytes(
            struct.pack(">II", 0x801, count) + bytes(image % 10 for image in range(count)))
        output = self.run_example(CONFIGS / "mnist_ddp.yaml", environment={"MNIST": str(folder)})
        self.assertIn("eval_accuracy", read_lines(output)[-1])
        (folder / "train-labels-idx1-ubyte").unlink()
        missing = trainer("launch", "--config_file", CONFIGS / "mnist_ddp.yaml", folder=self.folder, MNIST=str(folder))
        self.assertEqual(missing.returncode, 3)
        self.assertIn(str(folder / "train-labels-idx1-ubyte"), missing.stderr)

    def test_roleplay(self):
        speeches = [f"{'KING' if i % 2 else 'FOOL'}:\nMy lord, this is speech number {i},\nand a second line.\n"
                    for i in range(60)]
        play = self.folder / "play.txt"
        play.write_text("\n".join(speeches))
        tokenizer = self.make_tokenizer("llama", 300, play)
        words = ("--set", f"tokenizer.path={tokenizer}", "--set", "data.validation.fraction=0.2")
        here = {"PLAY": str(play), "CHARACTER": "FOOL"}
        shown = trainer("tokenize", "--show", "2", "--config_file", CONFIGS / "roleplay.yaml", *words,
                        folder=self.folder, **here)
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertIn("\u27e6", shown.stdout)  # the part that is learnt is marked
        output = self.run_example(CONFIGS / "roleplay.yaml", environment=here, flags=words)
        first = json.loads((output / "predictions.jsonl").read_text().splitlines()[0])
        self.assertIn("KING", first["input"])
        self.assertTrue(first["label"].startswith("My lord, this is speech"), first)

    def test_plans_for_machines_with_gpus(self):
        """Bytes of weights, gradients and AdamW's state on each rank, by hand: see docs/memory.md. Shards of a unit are
        whole multiples of 32 elements."""
        t5_units = [32128 * 768 + 2 * 768] + 2 * [4 * 768 * 768 + 2 * 768 * 3072]  # the root, and two kinds of blocks
        t5_units[1] += 2 * 768
        t5_units[2] += 4 * 768 * 768 + 3 * 768
        t5_units += [t5_units[1] + 32 * 12, t5_units[2] + 32 * 12] + 10 * t5_units[1:3]
        plans = [("llama2_13b_tp8.yaml", 8, 1_627_345_920)]
        plans += [("t5_base_fsdp.yaml", n, sum(-(-unit // (32 * n)) * 32 for unit in t5_units)) for n in (2, 8)]
        for name, ranks, elements in plans:
            with self.subTest(name, ranks=ranks):
                words = ("--config_file", CONFIGS / name, "--num_processes", ranks)
                planned = trainer("check", *words, "--json", folder=self.folder)
                self.assertEqual((planned.returncode, planned.stderr), (0, ""))
                memory = json.loads(planned.stdout)["memory"]
                self.assertEqual([memory[part] for part in ("weights", "gradients", "optimizer")],
                                 [4 * elements, 4 * elements, 8 * elements])
                self.assertEqual(trainer("launch", *words, folder=self.folder).returncode, CONFIGURATION)

    def test_tutorial_runs_as_accelerate_wrote_it(self):
        words = [CONFIGS / "tutorial_fsdp.yaml", CONFIGS / "tutorial_job.yaml"]
        environment = {"MODEL": str(self.base_model())}
        refused = trainer("launch", "--config_file", *words, folder=self.folder, **environment)
        self.assertEqual(refused.returncode, CONFIGURATION)
        self.assertIn("no GPU support: --cpu", refused.stderr)
        planned = trainer("check", "--config_file", *words, folder=self.folder, **environment)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertIn("`trainer launch` needs what is missing", planned.stdout)
        flags = ["--config_file", *words, "--cpu", "--set", "training.max_steps=2", "--set", "logging.logging_steps=1",
                 "--set", f"output_dir={self.folder / 'output'}"]
        checked = trainer("check", *flags, folder=self.folder, **environment)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("fsdp_offload_params", checked.stdout)
        launched = trainer("launch", *flags, folder=self.folder, **environment)
        self.assertEqual(launched.returncode, 0, launched.stderr)
        self.assertTrue((self.folder / "output/adapter_model.safetensors").exists())


if __name__ == "__main__":
    unittest.main()
