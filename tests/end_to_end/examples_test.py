"""The shipped files in configs/, on the sample data of the repository: runs the commands in their comments as a reader
would, but with only two updates."""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from support import PATIENCE, REPOSITORY, TRAINER, EndToEnd, read_lines

CONFIGURATION, INPUT = 2, 3
SHORT = " --set training.max_steps=2 --set logging.logging_steps=1"


def commands_in(file):
    """The commands in a file's comments: lines "#   trainer …", continued after a backslash."""
    lines = [line[1:].strip() for line in file.read_text().splitlines() if line.startswith("#   ")]
    return [command for command in "\n".join(lines).replace("\\\n", "").split("\n") if command.startswith("trainer ")]


class Examples(EndToEnd):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.copy = cls.shared / "copy"
        shutil.copytree(REPOSITORY / "configs", cls.copy / "configs")
        shutil.copytree(REPOSITORY / "data/examples", cls.copy / "data/examples")
        cls.done = set()

    def shell(self, command, code=0, **environment):
        """Runs a command in the copy, with none of the variables set."""
        clean = {key: value for key, value in os.environ.items()
                 if not key.startswith(("ACCELERATE_", "FSDP_", "TRAINER_", "MODEL", "MNIST", "PHRASEBANK", "CORPUS"))}
        clean["PATH"] = f"{pathlib.Path(TRAINER).parent}:{clean['PATH']}"
        done = subprocess.run(["bash", "-c", command], cwd=self.copy, env={**clean, **environment}, text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * PATIENCE, check=False)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout}{done.stderr}")
        return done

    def run_once(self, command):
        """Runs the commands that it depends on first, as one example may need others."""
        if command in self.done:
            return
        self.done.add(command)
        for file in (self.copy / "configs").glob("*.yaml"):
            if f"configs/{file.name}" in command:
                self.prepare(file, command)
        self.shell(command + SHORT if command.startswith("trainer launch") else command)

    def prepare(self, file, without=""):
        for command in commands_in(file):
            if command != without:
                self.run_once(command)

    def own_commands(self, file):
        named = [command for command in commands_in(file) if f"configs/{file.name}" in command]
        named = [command for command in named if command.startswith(("trainer launch", "trainer check"))]
        return named or [f"trainer launch --config_file configs/{file.name}"]

    def run_example(self, name):
        """Runs an example and returns its output folder."""
        file = self.copy / "configs" / name
        for command in self.own_commands(file):
            self.run_once(command)
        found = [line.split()[1] for line in file.read_text().splitlines() if line.startswith("output_dir: ")]
        return (self.copy / "configs" / found[0]).resolve()

    def test_each_runs_as_shipped(self):
        files = sorted((self.copy / "configs").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 16)
        for file in files:
            if file.name == "tutorial_fsdp.yaml":
                continue  # Accelerate's part of tutorial_job.yaml
            with self.subTest(file.name):
                output = self.run_example(file.name)
                launches = any(command.startswith("trainer launch") for command in self.own_commands(file))
                steps = [line["step"] for line in read_lines(output) if "loss" in line]
                self.assertEqual(steps, [1, 2] if launches else [])
                alone = [] if file.name == "tutorial_job.yaml" else [f"trainer check --config_file configs/{file.name}"]
                for command in alone:
                    self.assertEqual(self.shell(command).stderr, "")

    def test_outputs(self):
        self.assertTrue((self.run_example("quickstart_lora.yaml") / "adapter_model.safetensors").exists())
        self.assertTrue((self.run_example("tutorial_job.yaml") / "adapter_model.safetensors").exists())
        self.assertTrue((self.run_example("llama_pretraining.yaml") / "tokenizer.model").exists())
        self.assertIn("eval_accuracy", read_lines(self.run_example("mnist_ddp.yaml"))[-1])
        bert = self.run_example("bert_classification.yaml")
        self.assertEqual(json.loads((bert / "config.json").read_text())["id2label"],
                         {"0": "garden", "1": "ship", "2": "shop"})
        self.assertIn("eval_accuracy", read_lines(bert)[-1])
        self.assertTrue((bert / "vocab.txt").exists())

    def test_roleplay_learns_the_characters_speeches(self):
        output = self.run_example("roleplay.yaml")
        shown = self.shell("trainer tokenize --show 2 --config_file configs/roleplay.yaml").stdout
        self.assertIn("\u27e6", shown)  # the part that is trained on is marked
        first = json.loads((output / "predictions.jsonl").read_text().splitlines()[0])
        self.assertIn("You are the ferryman", first["input"])
        self.assertIn(first["label"].split("\n")[0], (self.copy / "data/examples/play.txt").read_text())
        self.assertNotIn("eval_accuracy", read_lines(output)[-1])  # replies are scored only if metrics request it

    def test_other_digits(self):
        folder = self.folder / "mnist"
        shutil.copytree(self.copy / "data/examples/digits", folder)
        launch = f"trainer launch --config_file configs/mnist_ddp.yaml --set output_dir={self.folder / 'output'}"
        self.shell(launch + SHORT, MNIST=str(folder))
        (folder / "train-labels-idx1-ubyte.gz").unlink()
        missing = self.shell(launch, code=INPUT, MNIST=str(folder))
        self.assertIn(str(folder / "train-labels-idx1-ubyte"), missing.stderr)

    def test_one_model_under_three_splits(self):
        """Exported for eight ranks, trained as two stages of two ranks, and continued the same way and on one rank."""
        spread = self.run_example("llama_megatron_tp2_pp2.yaml")
        degrees = "megatron_lm_config.megatron_lm_"
        alone = f"--num_processes 1 --set {degrees}tp_degree=1 --set {degrees}pp_degree=1"
        losses = []
        for number, split in enumerate(("", alone)):
            output = self.folder / f"resumed-{number}"
            shutil.copytree(spread, output)
            self.shell(f"trainer launch --config_file configs/llama_megatron_tp2_pp2.yaml --set output_dir={output} "
                       f"--set training.max_steps=5 --set logging.logging_steps=1 {split}")
            losses.append([line["loss"] for line in read_lines(output) if line.get("step", 0) > 2 and "loss" in line])
        self.assertEqual(len(losses[0]), 3)
        for spread_loss, loss in zip(*losses):
            self.assertAlmostEqual(spread_loss / loss, 1, delta=1e-5)

    def test_tutorial_is_for_gpus(self):
        self.run_example("tutorial_job.yaml")  # with --cpu
        files = "--config_file configs/tutorial_fsdp.yaml configs/tutorial_job.yaml"
        self.assertIn("no GPU support: --cpu", self.shell(f"trainer launch {files}", code=CONFIGURATION).stderr)
        self.assertIn("`trainer launch` needs what is listed as missing", self.shell(f"trainer check {files}").stdout)
        offload = "--fsdp_offload_params true"
        self.assertIn("fsdp_offload_params", self.shell(f"trainer check {files} {offload} --cpu").stdout)
        self.assertRegex(self.shell(f"trainer check {files} {offload}").stdout, "host memory.*what is offloaded")
        much = "--gpu_memory 0.1 --set training.per_device_train_batch_size=512"
        self.assertIn("of a GPU with 0.1 GiB", self.shell(f"trainer check {files} {much}", code=CONFIGURATION).stderr)

    def test_plans_for_machines_with_gpus(self):
        """Bytes of weights, gradients and AdamW's state on each rank, computed by hand: see docs/memory.md. Shards of a
        unit are multiples of 32 elements."""
        t5_units = [32128 * 768 + 2 * 768] + 2 * [4 * 768 * 768 + 2 * 768 * 3072]  # the root, and two kinds of blocks
        t5_units[1] += 2 * 768
        t5_units[2] += 4 * 768 * 768 + 3 * 768
        t5_units += [t5_units[1] + 32 * 12, t5_units[2] + 32 * 12] + 10 * t5_units[1:3]
        plans = [("llama2_13b_tp8.yaml", 8, 1_627_345_920)]
        plans += [("t5_base_fsdp.yaml", n, sum(-(-unit // (32 * n)) * 32 for unit in t5_units)) for n in (2, 8)]
        for name, ranks, elements in plans:
            with self.subTest(name, ranks=ranks):
                words = f"--config_file configs/{name} --num_processes {ranks}"
                memory = json.loads(self.shell(f"trainer check {words} --json").stdout)["memory"]
                self.assertEqual([memory[part] for part in ("weights", "gradients", "optimizer")],
                                 [4 * elements, 4 * elements, 8 * elements])
                self.shell(f"trainer launch {words}", code=CONFIGURATION)


if __name__ == "__main__":
    unittest.main()
