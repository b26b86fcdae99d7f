"""Counts, for each habit of ending a run, the runs that are saved, end with the right exit code and can be resumed.

    TRAINER_BIN=build/release/bin/trainer python3 tools/bench/stops.py [--rounds 5] [--only NAME …] [--patience 60] [--show]

The habits are the tests in tests/end_to_end/habits_test.py. --show prints the reason for each failure."""

import argparse
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/end_to_end"))
import support  # noqa: E402  (in tests/, not installed)
from habits_test import Habits  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[""], help="habits whose name contains one of these")
    parser.add_argument("--patience", type=float, default=60, help="seconds after which a run counts as hung")
    parser.add_argument("--show", action="store_true", help="print the reason for each failure")
    arguments = parser.parse_args()
    support.PATIENCE = arguments.patience
    names = [name for name in unittest.defaultTestLoader.getTestCaseNames(Habits)
             if any(part in name for part in arguments.only)]
    saved = 0
    for name in names:
        good = 0
        for _ in range(arguments.rounds):
            result = unittest.TestResult()
            unittest.TestSuite([Habits(name)]).run(result)
            good += result.wasSuccessful()
            if arguments.show:
                print("".join(why for _, why in (*result.failures, *result.errors)), end="", flush=True)
        saved += good
        print(f"{name.removeprefix('test_').replace('_', ' '):<42} {good} of {arguments.rounds}", flush=True)
    print(f"{'all':<42} {saved} of {len(names) * arguments.rounds}")


if __name__ == "__main__":
    main()
