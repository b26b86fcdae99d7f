"""The catalog of bad inputs: each line ends with its exit class and a short message that names the place, and writes
nothing. In addition to the unit tests of the readers, this tests what a user sees. No time is asserted;
tools/bench/bad_inputs.py shows the times."""

import concurrent.futures
import re
import unittest

import command_lines
import config_lines
import convert_lines
import data_lines
import file_lines
import launch_lines
import model_lines
import preference_lines
import tokenizer_lines
import troubleshooting
from case import DONE, TRAINER, Case, Elsewhere, Shared, expand, faults, run, runnable

SECTIONS = {"Configuration": (config_lines, 1, 86), "CommandLine": (command_lines, 87, 101),
            "Data": (data_lines, 102, 140), "Tokenizer": (tokenizer_lines, 141, 166),
            "Files": (file_lines, 167, 210), "Launch": (launch_lines, 211, 229),
            "Convert": (convert_lines, 230, 234), "UsingModels": (model_lines, 235, 243),
            "Preferences": (preference_lines, 244, 247)}
AT_ONCE = 4


class Section(unittest.TestCase):
    """Runs the cases of one section, several at a time, since they mostly wait for the program to load."""

    module = None

    @classmethod
    def setUpClass(cls):
        if not TRAINER:
            raise unittest.SkipTest("TRAINER_BIN is not set: the path of the built `trainer`")

    def check(self, needs_model):
        cases = runnable(self.module.LINES)
        shared = Shared()
        self.addCleanup(shared.remove)
        if needs_model:
            shared.make_model_and_run()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            for case, wrong in zip(cases, pool.map(lambda case: tried(case, shared), cases)):
                with self.subTest(case.name):
                    self.assertEqual(wrong, "")


def tried(case, shared):
    """The reason why the case fails, or ""."""
    place = shared.place()
    outcome, before = run(case, place, shared)
    wrong = faults(case, place, outcome, before)
    return "" if not wrong else "\n".join([case.name, *wrong, f"exit {outcome.code}", outcome.err[:3000],
                                           outcome.out[-1000:] if case.code == 0 else ""])


class Configuration(Section):
    module = config_lines

    def test_lines(self):
        self.check(needs_model=False)


class CommandLine(Section):
    module = command_lines

    def test_lines(self):
        self.check(needs_model=False)


class Convert(Section):
    module = convert_lines

    def test_lines(self):
        self.check(needs_model=False)


class Data(Section):
    module = data_lines

    def test_lines(self):
        self.check(needs_model=False)


class Tokenizer(Section):
    module = tokenizer_lines

    def test_lines(self):
        self.check(needs_model=True)


class Files(Section):
    module = file_lines

    def test_lines(self):
        self.check(needs_model=True)


class Launch(Section):
    module = launch_lines

    def test_lines(self):
        self.check(needs_model=False)


class UsingModels(Section):
    module = model_lines

    def test_lines(self):
        self.check(needs_model=True)


class Preferences(Section):
    module = preference_lines

    def test_lines(self):
        self.check(needs_model=False)


class Catalogue(unittest.TestCase):
    def test_every_line_has_a_case(self):
        for name, (module, first, last) in SECTIONS.items():
            found = {case.line for case in expand(module.LINES)}
            self.assertEqual(sorted(found), list(range(first, last + 1)), name)

    def test_accepted_inputs_have_a_reason(self):
        """Every line of the catalog is a bad input, unless it says "(accept)" itself: accepting any other case is our
        own decision."""
        accept = {32, 39, 104, 131}
        for module, _, _ in SECTIONS.values():
            for case in expand(module.LINES):
                if isinstance(case, Case) and case.code == DONE and case.line not in accept:
                    self.assertTrue(case.although, case.name)

    def test_every_refused_case_is_in_the_documentation(self):
        cases = {}  # by line and kind
        for _, module in troubleshooting.SECTIONS:
            for case in troubleshooting.refused_cases(module):
                for kind in troubleshooting.kinds_of(case.what.replace("|", "/")):
                    cases.setdefault((case.line, kind), []).append(case)
        found, anchors, above = set(), [], None
        for row in troubleshooting.PAGE.read_text().splitlines():
            if not row.startswith('| <a id="'):
                continue
            _, anchor, given, message, remedy, _ = row.replace("\\|", "/").split("|")
            above = above if remedy.strip() == troubleshooting.SAME else remedy.strip()
            anchors.append(anchor.strip())
            line = int(re.search(r"\d+", anchor).group())
            kinds = [(line, kind) for kind in troubleshooting.kinds_of(given.strip())]
            found.update(kinds)
            with self.subTest(anchor.strip()):
                self.assertEqual(above, troubleshooting.remedy(line))
                shown = cases[kinds[0]]  # its message; those of the others differ in names
                self.assertTrue(any(not case.says or any(text in message for text in case.says) for case in shown), message)
        self.assertEqual(len(anchors), len(set(anchors)))
        self.assertEqual(found, set(cases), "run tests/bad_inputs/troubleshooting.py")

    def test_tests_elsewhere_exist(self):
        for module, _, _ in SECTIONS.values():
            for case in expand(module.LINES):
                if isinstance(case, Elsewhere):
                    self.assertEqual(unittest.defaultTestLoader.loadTestsFromName(case.test).countTestCases(), 1)


if __name__ == "__main__":
    unittest.main()
