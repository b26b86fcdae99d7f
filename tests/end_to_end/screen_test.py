"""What a run writes to its screen: warnings once, whatever the ranks, and nothing but lines on a pipe."""

import os
import pty
import subprocess
import unittest
from unittest import mock

from support import TRAINER, EndToEnd

STEPS = {"training": {"max_steps": 4}}
RANKS = {"distributed_type": "MULTI_CPU", "num_processes": 4}


class Screen(EndToEnd):
    def test_each_warning_stands_once(self):
        run = self.launch(self.job("output", STEPS, RANKS, {"training": {"cuda_graphs": True},
                                                            "evaluation": {"early_stopping_threshold": 0.5}}))
        warnings = [line for line in run.err.splitlines() if "warning" in line]
        self.assertEqual(len([line for line in warnings if "cuda_graphs" in line]), 1, run.err)
        self.assertEqual(len([line for line in warnings if "early_stopping_threshold" in line]), 1, run.err)
        self.assertEqual(len(warnings), len(set(warnings)), run.err)

    def test_a_pipe_gets_lines_only(self):
        for variables in ({}, {"NO_COLOR": "1"}, {"NO_COLOR": "1", "TERM": "xterm-256color"}):
            with self.subTest(variables), mock.patch.dict(os.environ, variables):
                run = self.launch(self.job(f"output{len(variables)}", STEPS, RANKS))
                for text in (run.out, run.err):
                    self.assertNotIn("\x1b", text)
                    self.assertNotIn("\r", text)
                self.assertIn("step 4/4", run.err)

    def test_a_terminal_gets_what_to_do_next(self):
        few = {"training": {"max_steps": 1}, "evaluation": {"metrics": ["loss"]}}
        measures = "measure:  trainer eval with the same arguments, and --metrics rougeL exact_match\r\n"
        measured = {"evaluation": {"metrics": ["loss", "accuracy"], "generate": True}}
        for name, changes, expected in (("answers", {}, True), ("alone", {"data": {"validation": None}}, False),
                                        ("measured", measured, False)):
            with self.subTest(name):
                ours, theirs = pty.openpty()
                job = self.job(name, few, changes)
                process = subprocess.Popen([TRAINER, "launch", "--config_file", job], stdin=theirs, stdout=theirs,
                                           stderr=subprocess.DEVNULL, cwd=self.folder, start_new_session=True)
                os.close(theirs)
                with open(ours, "rb", buffering=0) as screen:
                    shown = b"".join(chunks(screen)).decode()
                self.assertEqual(process.wait(), 0, shown)
                self.assertIn(f"try it:   trainer generate {name} --prompt 'TEXT'\r\n", shown)
                self.assertEqual(measures in shown, expected, shown)


def chunks(screen):
    """What a program writes to a terminal until it closes it."""
    try:
        while chunk := screen.read(65536):
            yield chunk
    except OSError:
        return


if __name__ == "__main__":
    unittest.main()
