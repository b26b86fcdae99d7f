"""Measures how long the program takes to refuse bad input, and its memory beyond that of a good run.

    TRAINER_BIN=build/release/bin/trainer python3 tools/bench/bad_inputs.py [--lines 1-229] [--slowest 15] [--at-once 1] [--show]

Runs one case at a time by default, so that cases don't slow each other down. --show prints the message of each case."""

import argparse
import concurrent.futures
import os
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/bad_inputs"))
from bad_inputs_test import SECTIONS  # noqa: E402  (in tests/, not installed)
from case import DONE, Case, Shared, faults, run, runnable  # noqa: E402

LATE = 0.5  # seconds, the limit in the catalog


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", default="1-229", help="FIRST-LAST")
    parser.add_argument("--slowest", type=int, default=15)
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="print the message of each case")
    return parser.parse_args()


def cases_of(lines):
    first, last = (int(number) for number in (lines.split("-") * 2)[:2])
    for module, _, _ in SECTIONS.values():
        yield from (case for case in runnable(module.LINES) if first <= case.line <= last)


def tell(case, outcome, wrong):
    print(f"--- {case.name}: exit {outcome.code}" + "".join(f"\n!!! {fault}" for fault in wrong))
    print((outcome.err + (outcome.out[-300:] if outcome.code == DONE else ""))[:1500].rstrip(), flush=True)


def try_all(cases, shared, at_once, show):
    def one(case):
        place = shared.place()
        outcome, before = run(case, place, shared)
        return case, outcome, faults(case, place, outcome, before)

    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        for case, outcome, wrong in pool.map(one, cases):
            if show or wrong:
                tell(case, outcome, wrong)
            yield case, outcome, wrong


def main():
    arguments = parse_arguments()
    shared = Shared()
    try:
        cases = list(cases_of(arguments.lines))
        if any(case.line > 140 for case in cases):
            shared.make_model_and_run()
        good, _ = run(Case(0, "a good one", lambda place: ["check", "--config_file", place.job()], DONE), shared.place(),
                      shared)
        results = list(try_all(cases, shared, arguments.at_once, arguments.show))
    finally:
        shared.remove()
    seconds = sorted(outcome.seconds for _, outcome, _ in results)
    late = [(case, outcome) for case, outcome, _ in results if outcome.seconds > LATE]
    failed = sum(bool(wrong) for _, _, wrong in results)
    print(f"\n{len(results)} cases of {len({case.line for case in cases})} lines, {failed} not as expected")
    print(f"median {statistics.median(seconds):.3f} s, 95 % within {seconds[len(seconds) * 95 // 100]:.3f} s, slowest "
          f"{seconds[-1]:.3f} s; `trainer check` of a good configuration {good.seconds:.3f} s, "
          f"{good.kibibytes / 1024:.0f} MiB; load {os.getloadavg()[0]:.1f}")
    print(f"over {LATE} s: {len(late)} cases of lines {', '.join(map(str, sorted({case.line for case, _ in late})))}")
    for title, key in (("slowest", lambda result: result[1].seconds), ("largest", lambda result: result[1].kibibytes)):
        print(f"\n{title:<64}{'seconds':>9}{'MiB':>7}{'beyond a good run':>19}")
        for case, outcome, _ in sorted(results, key=key, reverse=True)[:arguments.slowest]:
            beyond = max(0, outcome.kibibytes - good.kibibytes) / 1024
            print(f"{case.name:<64.64}{outcome.seconds:>9.3f}{outcome.kibibytes / 1024:>7.0f}{beyond:>19.0f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
