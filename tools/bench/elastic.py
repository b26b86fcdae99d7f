"""Machines join and are killed at random, the leader too, during a tiny elastic run, `num_machines: 1:N`. Measures the
time from each change to the first update of the next generation, and checks at the end that the updates are those of an
undisturbed run.

    python3 tools/bench/elastic.py --events 20                  # launchers on one machine, one rank each
    python3 tools/bench/elastic.py --events 20 --apart          # each with its own network and folder; needs root
"""

import argparse
import collections
import os
import pathlib
import random
import statistics
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
CAME, KILLED, LED = "a machine joins", "a follower is killed", "the leader is killed"


def load_helpers(trainer):
    """Imports the modules of the end-to-end tests, which read the program's path at import."""
    os.environ["TRAINER_BIN"] = str(trainer.resolve())
    sys.path.insert(0, str(ROOT / "tests" / "end_to_end"))
    import elastic_test
    import elected_test
    import support
    return elastic_test.OneAddress, elected_test.Elected, support


class Bench:
    def __init__(self, options):
        self.options = options
        self.random = random.Random(options.seed)
        together, apart, self.support = load_helpers(options.trainer)

        class Once(apart if options.apart else together):
            machines = options.machines
            flags = ("--max_restarts", "1000", "--rdzv_conf", f"last_call_timeout={options.last_call}")

            def runTest(self):
                """Does nothing: only the helpers of this class are used."""

        Once.setUpClass()
        self.test = Once()
        self.test.setUp()
        self.runs = {}
        self.seconds = collections.defaultdict(list)  # from a change to the first update with the new number of ranks
        self.pauses = collections.defaultdict(list)  # the part of these without any update

    def ranks(self):
        return set(next(iter(self.runs.values())).ranks().values())

    def leader(self):
        if self.options.apart:  # as the machines that run have agreed last
            records = [self.test.folder_of(number) / ".votes" for number in self.runs]
            agreed = [path.read_text().splitlines()[1].split() for path in records if path.exists()]
            return int(max(agreed, key=lambda words: int(words[0]))[1]) if agreed else 0
        words = (self.test.output / ".lock").read_text().splitlines()[1].split()
        return int(words[1])

    def step(self):
        if self.options.apart:
            self.test.leader = self.leader()
            self.test.output = self.test.folder_of(self.test.leader)
        return self.support.last_step(self.test.output)

    def change(self):
        """Adds or kills one machine."""
        absent = [number for number in range(self.options.machines) if number not in self.runs]
        fewest = 2 if self.options.apart else 1  # the other one of two can't replace the leader
        what = CAME if absent and (len(self.runs) <= fewest or self.random.random() < 0.5) else KILLED
        before = self.ranks()
        begin = time.monotonic()
        if what == CAME:
            number = self.random.choice(absent)
            self.runs[number] = self.test.start_machine(number)
        else:
            number = self.random.choice(list(self.runs))
            what = LED if number == self.leader() else KILLED
            self.runs.pop(number).kill()
        step, last_update = self.step(), time.monotonic()
        while self.ranks() & before or len(self.ranks()) != len(self.runs):
            if self.step() != step:
                step, last_update = self.step(), time.monotonic()
            self.check()
            time.sleep(0.02)
        base = self.step()
        self.wait(lambda: self.step() != base)
        if self.step() < base:  # updates that the lost generation made after its last save are dropped
            base = self.step()
            self.wait(lambda: self.step() > base)
        now = time.monotonic()
        self.seconds[what].append(now - begin)
        self.pauses[what].append(now - last_update)
        # A random number of updates: three failures in a row at the same step would end the run.
        self.test.go_on(list(self.runs.values()), len(self.runs), self.random.randint(1, 25))

    def check(self):
        for number, run in self.runs.items():
            if run.ended():
                others = "".join(f"machine {other}:\n{one.err}\n" for other, one in self.runs.items())
                raise SystemExit(f"machine {number} ended:\n{others}")

    def wait(self, condition):
        self.support.until(lambda: condition() or self.check())

    def run(self):
        self.runs[0] = self.test.start_machine(0)
        self.test.go_on(list(self.runs.values()), 1)
        for event in range(self.options.events):
            self.change()
            print(f"\r{event + 1} events, step {self.step()}, {len(self.runs)} machines", end="", flush=True)
        leader = self.runs.pop(self.leader())
        self.test.stop([leader, *self.runs.values()])
        print("\nseconds (median, lowest, highest)")
        for name in sorted(self.seconds):
            for what, values in (("until the first update after it", self.seconds[name]),
                                 ("of these, without any update", self.pauses[name])):
                print(f"{name + ', ' + what:60}{statistics.median(values):7.2f}{min(values):7.2f}{max(values):7.2f}"
                      f"   {len(values)} times")
        self.test.assert_undisturbed()
        print("all updates were made once, in the order and with the losses of an undisturbed run")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--events", type=int, default=20)
    parser.add_argument("--apart", action="store_true", help="three machines without a shared folder: a majority decides who leads")
    parser.add_argument("--machines", type=int, default=3)
    parser.add_argument("--last_call", type=int, default=1, help="seconds that a lost machine has to rejoin")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}, load {os.getloadavg()[0]:.1f}", flush=True)
    bench = Bench(options)
    try:
        bench.run()
    finally:
        bench.test.doCleanups()
        type(bench.test).doClassCleanups()


if __name__ == "__main__":
    main()
