"""Machines without a shared folder replace a lost leader by a majority: one history, whoever is lost, cut off or paused."""

import os
import signal
import unittest

import elastic_test
from machines_test import SECRET
from replicas_test import REPLICATED, lose, whole
from support import until


class Elected(elastic_test.Namespaces):
    """Three machines, each in its own network and with its own folder; two have every checkpoint."""

    test_leader_is_cut_off_and_not_succeeded = None

    def setUp(self):
        super().setUp()
        self.config = self.job("output", elastic_test.LONG, REPLICATED)
        self.leader = 0

    def folder_of(self, number):
        return self.folder / ("output" if number == 0 else f"elsewhere-{number}")

    def start_machine(self, number, *flags, secret=SECRET):
        return super().start_machine(number, "--output_dir", str(self.folder_of(number)), *flags, secret=secret)

    def go_on(self, runs, ranks, updates=5):
        self.output = self.folder_of(self.leader)
        super().go_on(runs, ranks, updates)

    def begin(self):
        runs = [self.start_machine(number) for number in range(3)]
        self.go_on(runs, 3, updates=25)
        until(lambda: whole(self.folder_of(1)))
        return runs

    def end(self, runs):
        """`runs`: the leader's first."""
        self.stop(runs)
        for run in runs[1:]:
            self.assertIn("kept: the leader's checkpoints; see its message", run.err)
        self.assert_undisturbed()
        newest = max(whole(self.folder_of(self.leader)))
        holders = [number for number in range(3) if newest in whole(self.folder_of(number))]
        self.assertGreaterEqual(len(holders), 2, f"of checkpoint-{newest}")

    def elect(self, run, number):
        until(lambda: f"machine {number} of 3 leads the run from now on, at 10.98.0.{number + 1}:" in run.err or run.ended())
        self.leader = number

    def rejoin(self, runs):
        """Machine 0, which has led, follows machine 1, and all train until the run's end."""
        until(lambda: "machine 0 of 3: connected to machine 1 (" in runs[0].err or runs[0].ended())
        self.go_on([runs[1], runs[2], runs[0]], 3)
        self.end([runs[1], runs[2], runs[0]])

    def test_machine_0_is_lost_and_comes_back(self):
        """With an empty disk."""
        runs = self.begin()
        runs[0].kill()
        lose(self.folder_of(0))
        self.elect(runs[1], 1)
        self.go_on(runs[1:], 2)
        runs[0] = self.start_machine(0)
        self.rejoin(runs)

    def test_paused_leader_wakes(self):
        runs = self.begin()
        paused = [runs[0].pid, runs[0].ranks()[0]]
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        self.elect(runs[1], 1)
        self.go_on(runs[1:], 2)
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
        self.rejoin(runs)

    def test_leader_is_cut_off(self):
        runs = self.begin()
        self.cable(0, "down")
        self.elect(runs[1], 1)
        self.assertIn("restart 1 of 3", runs[0].err, "its ranks have stopped before")
        self.go_on(runs[1:], 2)
        self.cable(0, "up")
        self.rejoin(runs)

    def test_follower_is_cut_off(self):
        runs = self.begin()
        self.cable(1, "down")
        until(lambda: "restart 1 of 3" in runs[0].err)
        self.go_on([runs[0], runs[2]], 2)
        self.cable(1, "up")
        self.go_on([runs[0], runs[2], runs[1]], 3)
        self.assertFalse(any("leads the run from now on" in run.err for run in runs))
        self.end([runs[0], runs[2], runs[1]])


if __name__ == "__main__":
    unittest.main()
