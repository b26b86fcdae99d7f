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


if __name__ == "__main__":
    unittest.main()
