"""Measures the cost of watching the ranks, and how soon the launcher detects faults.

  cost     pairs of runs with and without the record that ranks keep of each collective (TRAINER_WATCH=0 disables it)
  notice   seconds from a fault until the remaining launcher has ended: a rank that is killed, stopped or hangs, and,
           over two network namespaces (root), a launcher that is killed or frozen and a network link that is cut

Uses the tiny job and the helpers of tests/end_to_end.
"""

import argparse
import json
import os
import pathlib
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHARDED = {"distributed_type": "FSDP", "num_processes": 2,
           "fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                           "fsdp_transformer_layer_cls_to_wrap": "T5Block"}}
WARM_UP = 20  # updates that are not counted
HANG = 200  # the update in which a rank hangs; by then the launcher knows how long updates take
FAULTS = ("a rank is killed", "a rank is stopped", "a rank hangs in an update", "another machine's launcher is killed",
          "another machine's launcher is frozen", "the network link is cut")
PARTITIONS = ("one of three machines is cut off", "the first of three machines is cut off")


def load_helpers(trainer: pathlib.Path):
    """Imports the modules of the end-to-end tests, which read the program's path at import."""
    os.environ["TRAINER_BIN"] = str(trainer)
    sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
    import machines_test
    import support
    import three_machines_test
    return machines_test, three_machines_test, support


class Bench:
    """One test of a class, for use outside unittest."""

    def __init__(self, test_class):
        class Once(test_class):
            def runTest(self):
                pass
        Once.setUpClass()
        self.test = Once()
        self.test.setUp()

    def __enter__(self):
        return self.test

    def __exit__(self, *_):
        self.test.doCleanups()
        type(self.test).doClassCleanups()


def cost(arguments: argparse.Namespace) -> None:
    _, _, support = load_helpers(arguments.trainer)
    os.environ["TRAINER_SHARE_MEMORY"] = "0"  # so that all communication uses collectives
    ratios = []
    with Bench(support.EndToEnd) as test:
        for pair in range(arguments.pairs):
            seconds = {}
            for watch in ("1", "0") if pair % 2 else ("0", "1"):
                os.environ["TRAINER_WATCH"] = watch
                name = f"pair-{pair}-{watch}"
                test.launch(test.job(name, SHARDED, {"training": {"max_steps": WARM_UP + arguments.steps},
                                                     "evaluation": None, "checkpoint": {"save_steps": 0}}))
                lines = [line for line in support.read_lines(test.folder / name) if "step_seconds" in line]
                seconds[watch] = statistics.median(line["step_seconds"] for line in lines[WARM_UP:])
            ratios.append(seconds["1"] / seconds["0"])
            print(f"pair {pair + 1}: watched {1e3 * seconds['1']:.2f} ms per update, not watched "
                  f"{1e3 * seconds['0']:.2f} ms: {ratios[-1]:.3f}x, load {os.getloadavg()[0]:.1f}", flush=True)
    print(f"watched takes {statistics.median(ratios):.3f}x as long (median of {len(ratios)} pairs, "
          f"{min(ratios):.3f} to {max(ratios):.3f})")


def ending(run, fault) -> float:
    """Seconds from a fault to the end of the run's launcher."""
    begin = time.monotonic()
    fault()
    run.wait()
    return time.monotonic() - begin


def faults(test, machines_test, support):
    """By name: a function that starts a run and returns the remaining launcher and the fault."""
    long = machines_test.LONG

    def started(runs):
        support.until(lambda: support.last_step(test.folder / "output") >= 2)
        return runs

    def one_machine(number, how):
        run = started(test.start(test.job("output", long, SHARDED)))
        rank = run.ranks()[number]
        return run, lambda: os.kill(rank, how)

    def hang():
        os.environ["TRAINER_INJECT"] = f"slow:rank=1,step={HANG},seconds=100000"
        run = test.start(test.job("output", long, SHARDED))
        del os.environ["TRAINER_INJECT"]
        support.until(lambda: support.last_step(test.folder / "output") == HANG - 1)
        return run, lambda: None

    def two_machines(make_fault):
        job = test.job("output", long, {**SHARDED, "num_processes": 4})
        runs = started(test.start_both(job, "10.99.0.1", 29500, test.before))
        return runs[0], make_fault(runs)

    def cut():
        test.ip("-n", test.spaces[1], "link", "set", test.cables[1], "down")

    return dict(zip(FAULTS, (
        lambda: one_machine(1, signal.SIGKILL),
        lambda: one_machine(1, signal.SIGSTOP),
        hang,
        lambda: two_machines(lambda runs: runs[1].kill),
        lambda: two_machines(lambda runs: lambda: os.kill(runs[1].pid, signal.SIGSTOP)),
        lambda: two_machines(lambda _: cut))))


def partition(test, long, number):
    """Cuts one of three machines off. Returns (side, seconds until its launchers ended, first message) per side."""
    runs = test.running(long)
    test.cable(number, "down")
    begin = time.monotonic()
    ended = {}
    while len(ended) < len(runs):
        for place, run in enumerate(runs):
            if run.ended():
                ended.setdefault(place, time.monotonic() - begin)
        time.sleep(0.01)
    others = [place for place in ended if place != number]
    lost = [line for run in (runs[others[0]], runs[number]) for line in run.err.splitlines() if "was lost" in line]
    return (("the others", max(ended[place] for place in others), lost[0]), ("itself", ended[number], lost[-1]))


def notice(arguments: argparse.Namespace) -> None:
    machines_test, three_machines_test, support = load_helpers(arguments.trainer)
    why = machines_test.why_no_namespaces()
    if why:
        sys.exit(why)
    seconds, said = {}, {}
    for _ in range(arguments.pairs):
        for name in FAULTS:
            with Bench(machines_test.Namespaces) as test:
                run, fault = faults(test, machines_test, support)[name]()
                seconds.setdefault(name, []).append(ending(run, fault))
                outcome = json.loads((test.folder / "output" / "outcome.json").read_text())
                said[name] = outcome["message"].splitlines()[0]
                print(f"{name}: {seconds[name][-1]:.2f} s, exit {run.code}, load {os.getloadavg()[0]:.1f}", flush=True)
        for number, name in ((2, PARTITIONS[0]), (0, PARTITIONS[1])):
            with Bench(three_machines_test.Switched) as test:
                for side, passed, message in partition(test, three_machines_test.LONG, number):
                    seconds.setdefault(f"{name}: {side}", []).append(passed)
                    said[f"{name}: {side}"] = message
                    print(f"{name}: {side}: {passed:.2f} s, load {os.getloadavg()[0]:.1f}", flush=True)
    print("\nseconds until the remaining launcher has ended (median, lowest, highest)")
    for name, values in seconds.items():
        print(f"{name:60}{statistics.median(values):7.2f}{min(values):7.2f}{max(values):7.2f}   {said[name]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["cost", "notice"])
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, default=200, help="counted updates per run")
    arguments = parser.parse_args()
    {"cost": cost, "notice": notice}[arguments.what](arguments)


if __name__ == "__main__":
    main()
