"""Random faults in a tiny run: ranks and launchers are killed, stopped and asked to stop at random times, and the
number of ranks changes whenever the launcher ends. At the end, the run must equal an undisturbed run. A run that
reaches its last step before all events have been injected is compared, and followed by another.

    python3 tools/bench/faults.py --events 200                  # the world size, 1 to 4, changes between launches
    python3 tools/bench/faults.py --events 200 --sizes 3        # one size: final weights must be bit-identical
"""

import argparse
import collections
import os
import pathlib
import random
import signal
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ.setdefault("TRAINER_BIN", str(ROOT / "build/release/bin/trainer"))
sys.path.insert(0, str(ROOT / "tests/end_to_end"))

from support import EndToEnd, last_step, read_lines, results, until  # noqa: E402

MOST_DIFFERENCE = 1e-5  # of a loss, if the number of ranks changes
EVENTS = {"kill a rank": 12, "kill the launcher": 4, "SIGTERM to the launcher": 3, "SIGTERM to a rank": 1,
          "SIGUSR1 to the launcher": 1, "SIGSEGV in a rank": 2, "SIGSTOP a rank": 1}


class Faults(EndToEnd):
    def runTest(self):
        """Does nothing: only the helpers of this class are used."""


class Bench:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        Faults.setUpClass()
        self.test = Faults()
        self.test.setUp()
        self.runs = 0
        self.expected = None  # the folder of an undisturbed run
        self.counts = collections.Counter()
        self.seconds = collections.defaultdict(list)  # from a fault to the next attempt, or the end
        self.lost = []  # repeated updates
        self.codes = collections.Counter()

    def job(self, name, size):
        strategy = {} if size == 1 else {"distributed_type": self.options.strategy, "num_processes": size}
        # A small rate: with a large one, rounding differences between numbers of ranks would grow over the updates.
        return self.test.job(name, strategy, {"training": {"max_steps": self.options.steps, "global_batch_size": 12,
                                                           "learning_rate": 1e-5},
                                              "evaluation": None, "data": {"validation": None}, "max_restarts": 1000,
                                              "checkpoint": {"save_steps": self.options.save_steps,
                                                             "save_total_limit": 3}})

    def strike(self, run, lives):
        """Injects one fault; true if it is expected to end the launcher."""
        kind = self.random.choices(list(EVENTS), EVENTS.values())[0]
        ranks = run.ranks()
        if not ranks or (kind == "SIGSTOP a rank" and len(ranks) == 1):  # a single rank may be paused on purpose
            return False
        rank = self.random.choice(sorted(ranks.values()))
        before = last_step(self.output)
        numbers = {"kill": signal.SIGKILL, "SIGTERM": signal.SIGTERM, "SIGUSR1": signal.SIGUSR1,
                   "SIGSEGV": signal.SIGSEGV, "SIGSTOP": signal.SIGSTOP}
        number = numbers[kind.split(" ")[0]]
        to_launcher = kind.endswith("launcher")
        try:
            os.kill(run.pid if to_launcher else rank, number)
        except ProcessLookupError:
            return False
        began = time.monotonic()
        self.counts[kind] += 1
        ends = to_launcher or kind == "SIGTERM to a rank"
        try:
            until(lambda: run.ended() or (not ends and f"restart {lives + 1} of" in run.err))
        except AssertionError:
            raise SystemExit(f"this fault had no effect: {kind}\n{run.err}") from None
        self.seconds[kind].append(time.monotonic() - began)
        if not run.ended():
            until(lambda: run.ended() or len(run.ranks()) > 0 and last_step(self.output) != before)
            self.lost.append(max(0, before - last_step(self.output)))
        return ends

    def injected(self):
        return sum(self.counts.values())

    def run(self):
        """One run to its last step, in an output folder of its own."""
        self.runs += 1
        name = f"output-{self.runs}"
        self.output = self.test.folder / name
        while True:
            size = self.random.choice(self.options.sizes)
            run = self.test.start(self.job(name, size))
            lives = 0
            seen = last_step(self.output)
            while not run.ended():
                wanted = seen + self.random.randint(0, 2 * self.options.save_steps)
                until(lambda: run.ended() or last_step(self.output) > wanted or last_step(self.output) < seen)
                if run.ended() or self.injected() >= self.options.events:
                    break
                self.strike(run, lives)
                lives = run.err.count("trainer: restart ")
                seen = last_step(self.output)
            if self.injected() >= self.options.events:
                until(lambda: run.ended() or last_step(self.output) > 0)
                while not run.ended():
                    time.sleep(0.05)
            run.wait()
            self.codes[run.code] += 1
            if run.code == 0:
                return
            if run.code not in (137, 139, 143, 7, -9):
                raise SystemExit(f"exit code {run.code}:\n{run.err}")
            print(f"\r{self.injected()} events, step {last_step(self.output)} of {self.options.steps}, "
                  f"{sum(self.codes.values())} launches", end="", flush=True)

    def compare(self):
        """What differs from an undisturbed run; empty if nothing does."""
        if self.expected is None:
            run = self.test.start(self.job("expected", self.options.sizes[0]))
            while not run.ended():
                time.sleep(0.05)
            if run.code != 0:
                raise SystemExit(f"the undisturbed run: exit code {run.code}:\n{run.err}")
            self.expected = self.test.folder / "expected"
        expected = self.expected
        ours, theirs = results(self.output), results(expected)
        if [line["order_digest"] for line in ours] != [line["order_digest"] for line in theirs]:
            return "the sample order"
        if len(self.options.sizes) > 1:
            worst = max(abs(a["loss"] - b["loss"]) / abs(b["loss"]) for a, b in zip(ours, theirs))
            print(f"largest relative difference of a loss: {worst:.1e}")
            return "" if worst <= MOST_DIFFERENCE else "the losses"
        same = (self.output / "model.safetensors").read_bytes() == (expected / "model.safetensors").read_bytes()
        return "" if ours == theirs and same else "the final weights"

    def report(self):
        print(f"{self.injected()} events in {sum(self.codes.values())} launches of {self.runs} runs "
              f"(exit codes {dict(self.codes)})")
        for kind, seconds in sorted(self.seconds.items()):
            print(f"  {kind:<26}{len(seconds):>4}  until all ranks had ended or restarted: median "
                  f"{statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s")
        if self.lost:
            print(f"  updates repeated after a restart: median {statistics.median(self.lost):g}, most {max(self.lost)} "
                  f"(a save every {self.options.save_steps})")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 3, 4], help="numbers of ranks")
    parser.add_argument("--strategy", default="FSDP", choices=["FSDP", "MULTI_CPU"])
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--save_steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}, load {os.getloadavg()[0]:.1f}", flush=True)
    bench = Bench(options)
    try:
        while bench.injected() < options.events:
            before = bench.injected()
            bench.run()
            bench.test.assert_nothing_runs()
            print(f"\nrun {bench.runs}: {bench.injected() - before} events, {len(read_lines(bench.output))} updates")
            if what := bench.compare():
                sys.exit(f"differs: {what}")
            if bench.injected() == before:
                sys.exit("a whole run had no event: give it more --steps")
        bench.report()
        print(f"{bench.injected()} events: equal to an undisturbed run")
    finally:
        bench.test.doCleanups()
        Faults.doClassCleanups()


if __name__ == "__main__":
    main()
