#!/usr/bin/env python3
"""Makes the system calls of a short run fail, one in each run, and prints a table of what became of it.

system_calls.py BUILD_FOLDER [--ranks N] [--machines N] [--resumed] [--points N] [--only PATTERN] [--jobs N]

Without --points, every call fails with each of its errors, which takes hours; with it, at most that many calls of each
function in each process. How a run is judged: tests/end_to_end/failing_calls.py.
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=1, choices=(1, 2))
    parser.add_argument("--machines", type=int, default=1, choices=(1, 2), help="launchers that meet on 127.0.0.1")
    parser.add_argument("--resumed", action="store_true", help="runs that continue from a checkpoint")
    parser.add_argument("--points", type=int, default=0)
    parser.add_argument("--only", default="",
                        help="a regular expression: only faults whose text, such as 'trainer fork #1 EAGAIN', it matches")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    os.environ["TRAINER_BIN"] = str(build / "bin/trainer")
    os.environ["FAILING_CALLS_LIBRARY"] = str(build / "tests/libfailing_calls.so")
    sys.path.insert(0, str(ROOT / "tests/end_to_end"))
    import failing_calls  # pylint: disable=import-outside-toplevel  (it reads the variables above)

    with tempfile.TemporaryDirectory(prefix="system-calls-") as place:
        folder = pathlib.Path(place)
        os.environ["HF_HUB_CACHE"] = str(folder / "hub")
        tokenizer = folder / "tokenizer"
        subprocess.run([os.environ["TRAINER_BIN"], "tokenize", "train", "--input", ROOT / "data/examples/reports.txt",
                        "--format", "delimited", "--output", tokenizer, "--vocab_size", "280"], check=True,
                       capture_output=True)
        runs = failing_calls.Runs(folder, tokenizer, arguments.ranks, arguments.machines, arguments.resumed)
        faults = [fault for fault in failing_calls.faults(runs.counts, arguments.points)
                  if re.search(arguments.only, str(fault))]
        print(f"{sum(runs.counts.values())} calls, {len(faults)} faults", flush=True)
        outcomes = []
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for fault, outcome in zip(faults, pool.map(runs.fail, faults)):
                outcomes.append((fault, outcome))
                if outcome.problems:
                    print(f"{fault} ({outcome.caller}: {outcome.subject}): {'; '.join(outcome.problems)}\n"
                          f"{outcome.text[-1000:]}", flush=True)
    print("| function | process | calls failed | outcomes |\n|---|---|---|---|")
    print("\n".join(failing_calls.table(outcomes)))
    return 1 if any(outcome.problems for _, outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
