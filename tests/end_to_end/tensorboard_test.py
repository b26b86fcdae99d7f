"""The event files of a run, read by TensorBoard itself. Skipped where it isn't installed (tools/setup.sh --peers)."""

import json
import pathlib
import subprocess
import unittest

from support import EndToEnd, peer, read_lines

TENSORBOARD = peer("tensorboard")
# Runs under the Python that `tensorboard` itself starts with.
READ = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1])
events.Reload()
tags = events.Tags()
print(json.dumps({
    "scalars": {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags["scalars"]},
    "texts": {tag: [(event.step, event.tensor_proto.string_val[0].decode()) for event in events.Tensors(tag)]
              for tag in tags["tensors"]},
    "plugins": {tag: events.SummaryMetadata(tag).plugin_data.plugin_name for tag in tags["tensors"]}}))
"""

# The same, with numpy: compares each histogram of a step with numpy's of the tensors in a safetensors file, times a factor.
COMPARE = """
import json, sys
import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

folder, path, step, prefix, factor = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], float(sys.argv[5])
content = open(path, "rb").read()
size = int.from_bytes(content[:8], "little")
header = json.loads(content[8:8 + size])
header.pop("__metadata__", None)
positive, limit = [], 1e-12
while limit < 1e20:
    positive.append(limit)
    limit *= 1.1
edges = [-limit for limit in reversed(positive)] + [0] + positive
events = EventAccumulator(folder, size_guidance={"histograms": 0})
events.Reload()
found = {}
for tag in events.Tags()["histograms"]:
    for event in events.Histograms(tag):
        if event.step == step and tag.startswith(prefix):
            found[tag[len(prefix):]] = event.histogram_value
compared, wrong = 0, []
for name, entry in header.items():
    begin, end = entry["data_offsets"]
    values = numpy.frombuffer(content[8 + size + begin:8 + size + end], numpy.float32).astype(numpy.float64) * factor
    name = name.removeprefix("base_model.model.")
    if prefix == "gradients/" and "lora_A" in name:  # 0, as B begins as 0: not what A has become
        assert found.pop(name).sum_squares == 0, name
    if name not in found:
        continue
    value = found.pop(name)
    counts, limits = numpy.histogram(values, bins=edges)
    expected = {limit: count for limit, count in zip(limits[1:], counts) if count > 0}
    written = {limit: count for limit, count in zip(value.bucket_limit, value.bucket) if count > 0}
    same = (expected == written and value.num == len(values) == sum(value.bucket) and value.min == values.min()
            and value.max == values.max() and numpy.isclose(value.sum, values.sum(), rtol=1e-9, atol=1e-12)
            and numpy.isclose(value.sum_squares, values.dot(values), rtol=1e-9))
    wrong += [] if same else [name]
    compared += 1
print(json.dumps({"compared": compared, "wrong": wrong, "left": sorted(found)}))
"""


def python_of(program):
    """The interpreter in the first line of a script."""
    first = pathlib.Path(program).read_text(errors="replace").splitlines()[0]
    return first.removeprefix("#!").split()


@unittest.skipUnless(TENSORBOARD, "tensorboard is not installed (tools/setup.sh --peers), and TENSORBOARD does not name it")
class TensorBoard(EndToEnd):
    def test_a_run_and_its_resumption(self):
        reports = {"logging": {"report_to": "tensorboard"}}
        self.launch(self.job("output", reports, {"training": {"max_steps": 5}}))
        self.launch(self.job("output", reports, {"training": {"max_steps": 8}}))  # from checkpoint-5
        output = self.folder / "output"
        run = subprocess.run([*python_of(TENSORBOARD), "-c", READ, output / "tensorboard"], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        found = json.loads(run.stdout)
        lines = [line for line in read_lines(output) if "learning_rate" in line]
        self.assertEqual([step for step, _ in found["scalars"]["train/loss"]], list(range(1, 9)))
        for name in ("loss", "grad_norm", "learning_rate", "forward_seconds", "backward_seconds"):
            for (step, value), line in zip(found["scalars"][f"train/{name}"], lines, strict=True):
                self.assertEqual(step, line["step"])
                self.assertAlmostEqual(value, line[name], delta=1e-6 * abs(line[name]))
        self.assertEqual([step for step, _ in found["scalars"]["eval/loss"]], [4, 5, 8])
        texts = found["texts"]["configuration/text_summary"]
        self.assertEqual([step for step, _ in texts], [0, 6])
        resolved = (output / "config.resolved.yaml").read_text()
        self.assertEqual("".join(line[4:] for line in texts[-1][1].splitlines(True)), resolved)
        self.assertEqual(found["plugins"]["configuration/text_summary"], "text")

    def compared(self, output, file, step, prefix, factor=1):
        """The number of histograms that are numpy's; none is missing."""
        run = subprocess.run([*python_of(TENSORBOARD), "-c", COMPARE, output / "tensorboard", output / file, str(step), prefix,
                              str(factor)], capture_output=True, text=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        found = json.loads(run.stdout)
        self.assertEqual((found["wrong"], found["left"]), ([], []))
        return found["compared"]

    def test_histograms_are_numpys_for_every_strategy(self):
        logging = {"logging": {"report_to": "tensorboard", "histogram_steps": 3}}
        full = {"training": {"max_steps": 3, "learning_rate": 0.1}, "evaluation": None, "data": {"validation": None}}
        strategies = {"one": {}, "ddp": {"distributed_type": "MULTI_CPU", "num_processes": 2},
                      "fsdp": {"distributed_type": "FSDP", "num_processes": 3},
                      "tensor": {"distributed_type": "MULTI_CPU", "num_processes": 2,
                                 "parallelism_config": {"parallelism_config_tp_size": 2}}}
        for name, strategy in strategies.items():
            with self.subTest(name):
                output = self.folder / name
                self.launch(self.job(name, logging, full, strategy))
                self.assertGreater(self.compared(output, "model.safetensors", 3, "weights/"), 15)

    def test_histograms_of_gradients_are_numpys(self):
        # A step of SGD from 0 leaves the negated gradient: LoRA's B begins at 0.
        changes = {"training": {"max_steps": 1, "learning_rate": 1.0, "optim": "sgd", "lr_scheduler_type": "constant",
                                "max_grad_norm": 0},
                   "lora": {"r": 4, "lora_dropout": 0, "target_modules": ["q", "v"]}, "evaluation": None,
                   "logging": {"report_to": "tensorboard", "histogram_steps": 1}, "data": {"validation": None}}
        for name, strategy in {"one": {}, "fsdp": {"distributed_type": "FSDP", "num_processes": 2}}.items():
            with self.subTest(name):
                self.launch(self.job(name, changes, strategy))
                self.assertGreater(self.compared(self.folder / name, "adapter_model.safetensors", 1, "gradients/", -1), 3)

    def test_no_histograms_unless_asked(self):
        done = self.launch(self.job("output", {"logging": {"histogram_steps": 2}, "training": {"max_steps": 2}}))
        self.assertIn("logging.histogram_steps has no effect", done.err)
        self.assertFalse((self.folder / "output/tensorboard").exists())


if __name__ == "__main__":
    unittest.main()
