"""What tools/bench makes of its measurements: quiet rounds, ratios, the file of results, and its page."""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

BENCH = pathlib.Path(__file__).parents[2] / "tools/bench"
sys.path.insert(0, str(BENCH))

import alternate  # noqa: E402
import machine  # noqa: E402
import measurements  # noqa: E402

HERE, THERE = "A (family 1), 2 cores, Linux 6.1", "B (family 2), 2 cores, Linux 6.1"


def look(when, work=1.0, busy=0.0):
    return machine.Look(work, busy, when)


def a_round(peer, ours, work=1.0):
    return alternate.Round({"peer": peer, "ours": ours}, {"peer": 10.0, "ours": 10.0}, [look(0), look(1, work)])


def line(command, where, ratio=None, day="2026-01-01"):
    rows = {"peer": {"value": 2.0, "ratio": [ratio] * 3} if ratio else {"value": 2.0, "void": "not quiet"},
            "trainer": {"value": 1.0}}
    return {"command": command, "machine": where, "day": day, "title": command, "results": {"start [s]": rows}}


class Rounds(unittest.TestCase):
    def test_a_machine_that_changes_is_not_quiet(self):
        self.assertTrue(machine.was_quiet([look(0, 1.0), look(1, 1.1)]))
        self.assertFalse(machine.was_quiet([look(0, 1.0), look(1, 1.2)]))
        self.assertFalse(machine.was_quiet([look(0, 1.0), look(1, 1.2), look(2, 1.0)]))

    def test_a_machine_that_others_use_is_not_quiet(self):
        with mock.patch.object(machine.os, "sched_getaffinity", return_value={0, 1}):
            self.assertTrue(machine.was_quiet([look(0), look(10, busy=0.5)]))   # 2.5 % of two cores
            self.assertFalse(machine.was_quiet([look(0), look(10, busy=0.7)]))  # 3.5 %

    def test_the_ratio_is_the_median_of_the_quiet_rounds(self):
        rounds = [a_round(3.0, 1.0), a_round(2.0, 1.0), a_round(2.5, 1.0), a_round(2.0, 1.0), a_round(4.0, 1.0)]
        found = alternate.Comparison([*rounds, a_round(90.0, 1.0, work=2.0)], {}, {})
        self.assertEqual(len(found.quiet), 5)
        self.assertEqual(found.void, "")
        ratio, low, high = found.ratio("ours", "peer")
        self.assertEqual((ratio, low, high), (2.5, 2.0, 4.0))
        self.assertAlmostEqual(found.speed("peer"), 50 / 13.5)

    def test_too_few_quiet_rounds_give_no_ratio(self):
        found = alternate.Comparison([a_round(2.0, 1.0)] * 4 + [a_round(2.0, 1.0, work=2.0)] * 20, {}, {})
        self.assertEqual(found.void, "4 of 24 rounds were quiet, and a ratio takes 5")


class Measurements(unittest.TestCase):
    def test_a_job_has_a_line_for_each_machine(self):
        lines = []
        for new in (line("lora", HERE, 2.0), line("lora", THERE, 3.0), line("start", HERE, 4.0), line("lora", HERE, 5.0)):
            lines = measurements.merged(lines, new)
        self.assertEqual(lines, [line("lora", HERE, 5.0), line("start", HERE, 4.0), line("lora", THERE, 3.0)])

    def test_another_kernel_is_the_same_machine(self):
        lines = measurements.merged([line("lora", HERE, 2.0)], line("lora", HERE.replace("6.1", "6.2"), 3.0))
        self.assertEqual(len(lines), 1)

    def test_a_void_measurement_replaces_nothing(self):
        lines = [line("lora", HERE, 2.0)]
        self.assertEqual(measurements.merged(lines, line("lora", HERE)), lines)
        self.assertEqual(len(measurements.merged(lines, line("lora", THERE))), 2)

    def test_the_plot_has_one_line(self):
        old, new = ({"command": "scaling.py", "machine": where, "scaling": {"tokens": {"1": 1.0}}} for where in (HERE, THERE))
        self.assertEqual(measurements.merged([old], new), [new])

    def test_what_was_measured_today(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(machine, "describe", return_value=HERE):
            file = pathlib.Path(folder) / "results.jsonl"
            self.assertFalse(measurements.measured_today(file, "lora"))
            file.write_text(json.dumps(line("lora", HERE, 2.0)) + "\n")  # another day
            self.assertFalse(measurements.measured_today(file, "lora"))
            measurements.keep(file, {"command": "start", "title": "start", "results": {"void": "not quiet"}})
            self.assertFalse(measurements.measured_today(file, "start"))
            measurements.keep(file, {key: line("lora", HERE, 3.0)[key] for key in ("command", "title", "results")})
            self.assertTrue(measurements.measured_today(file, "lora"))
            with contextlib.redirect_stdout(io.StringIO()) as said:
                measurements.keep(file, {"command": "lora", "title": "lora", "results": {"void": "not quiet"}})
            self.assertIn("keeps the earlier measurement", said.getvalue())
            self.assertTrue(measurements.measured_today(file, "lora"))
            self.assertEqual([path.name for path in pathlib.Path(folder).iterdir()], ["results.jsonl"])

    def test_the_page_has_no_ratio_of_a_void_measurement(self):
        with tempfile.TemporaryDirectory() as folder:
            file, page = pathlib.Path(folder) / "results.jsonl", pathlib.Path(folder) / "page.md"
            file.write_text("".join(json.dumps(one) + "\n" for one in (line("lora", HERE, 2.0), line("start", THERE))))
            subprocess.run([sys.executable, BENCH / "report.py", file, page], check=True)
            table = page.read_text().split("\n| job | peer |")[1].split("\n## ")[0]
            self.assertIn("| lora | peer | 2.00× (2.00–2.00) |", table)
            self.assertNotIn("start", table)


if __name__ == "__main__":
    unittest.main()
