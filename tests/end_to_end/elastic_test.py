"""num_machines: 1:3: machines join and leave, and the updates equal those of an undisturbed run."""

import json
import os
import signal
import unittest

import machines_test
import three_machines_test
from support import PATIENCE, all_listening_ports, last_step, results, until

# A small learning rate: with a large one, rounding, which depends on the number of ranks, would grow over the updates.
LONG = {"distributed_type": "FSDP", "training": {"max_steps": 100000, "learning_rate": 1e-5}, "evaluation": None,
        "data": {"validation": None}, "checkpoint": {"save_steps": 20, "save_total_limit": 2}}
MOST_DIFFERENCE = 1e-5  # of a loss


class Elastic(machines_test.Machines):
    """Machines with one rank each."""

    address, before, machines = "127.0.0.1", None, 3
    flags = ("--rdzv_conf", "last_call_timeout=1")

    def setUp(self):
        super().setUp()
        self.port = machines_test.free_port()
        self.output = self.folder / "output"
        self.config = self.job("output", LONG)

    def start_machine(self, number, *flags, secret=machines_test.SECRET):
        return self.start(self.config, "--nnodes", f"1:{self.machines}", "--node_rank", str(number), "--master_addr",
                          self.address, "--master_port", str(self.port), "--nproc_per_node", "1", *self.flags,
                          *flags, before=(*(self.before[number] if self.before else ()), *secret))

    def go_on(self, runs, ranks, updates=5):
        """Waits until this many ranks train and make some updates."""
        until(lambda: len(runs[0].ranks()) == ranks or any(run.ended() for run in runs))
        step = last_step(self.output)
        until(lambda: last_step(self.output) >= step + updates or any(run.ended() for run in runs))
        self.assertFalse(any(run.ended() for run in runs), "".join(run.err for run in runs))

    def stop(self, runs):
        os.kill(runs[0].pid, signal.SIGTERM)
        self.finish(runs, 143)
        self.assert_nothing_runs()

    def assert_undisturbed(self):
        """Every update was made once, with the samples and, except for rounding, the loss of an undisturbed run."""
        ours = results(self.output)
        self.assertEqual([line["step"] for line in ours], list(range(1, len(ours) + 1)))
        run = self.start(self.job("expected", LONG, {"num_processes": self.machines}))
        until(lambda: last_step(self.folder / "expected") >= len(ours) or run.ended(), PATIENCE + len(ours) / 10)
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)
        theirs = results(self.folder / "expected")
        worst = 0
        for our, their in zip(ours, theirs):
            self.assertEqual(our["order_digest"], their["order_digest"], our["step"])
            self.assertEqual(our["tokens"], their["tokens"], our["step"])
            worst = max(worst, abs(our["loss"] - their["loss"]) / abs(their["loss"]))
        self.assertLess(worst, MOST_DIFFERENCE)

    def test_machine_0_is_lost_and_comes_back(self):
        runs = [self.start_machine(number) for number in range(3)]
        self.go_on(runs, 3, updates=25)  # so that a checkpoint exists
        runs.pop(0).kill()
        until(lambda: "trainer: machine 1 of 3 leads the run from now on, at 1" in runs[0].err)
        self.go_on(runs, 2)
        runs.append(self.start_machine(0))
        self.go_on(runs, 3)
        self.assertRegex(runs[2].err, r"machine 0 of 3: connected to machine 1 \(")
        for run in runs[:2]:
            self.assertEqual(run.err.count("trainer: restart "), 1, run.err)
        self.stop(runs)
        self.assertEqual(json.loads((self.output / "outcome.json").read_text())["leader_epoch"], 2)
        self.assert_undisturbed()

    def test_machines_join_and_leave(self):
        runs = [self.start_machine(0)]
        self.go_on(runs, 1)
        for number in (1, 2):
            runs.append(self.start_machine(number))
            self.go_on(runs, number + 1)
        self.assertIn("continuing with more machines, from", runs[0].err)
        runs.pop(1).kill()
        until(lambda: "restart 1 of 3" in runs[0].err)
        self.go_on(runs, 2)
        runs.append(self.start_machine(1))
        self.go_on(runs, 3)
        self.assertEqual(runs[0].err.count("restart"), 1, runs[0].err)
        self.stop(runs)
        outcome = json.loads((self.output / "outcome.json").read_text())
        self.assertEqual(outcome["restarts"], 1)
        self.assertNotIn(self.port, all_listening_ports())
        self.assert_undisturbed()


class OneAddress(Elastic):
    def start_alone(self, checkpoint):
        """Machine 0, whose disk is full at the first save, which is caused by machine 1's joining."""
        self.config = self.job("output", LONG, {"checkpoint": {"save_steps": 100000, **checkpoint}})
        self.before = (("env", "TRAINER_INJECT=enospc:rank=0,step=1,file=8"), ())
        runs = [self.start_machine(0)]
        self.go_on(runs, 1)
        runs.append(self.start_machine(1))
        return runs

    def test_disk_is_full_when_a_machine_comes(self):
        runs = self.start_alone({})
        until(lambda: " was not saved; the run continues" in runs[0].out + runs[0].err)
        until(lambda: "new machines join after the next successful save" in runs[0].out + runs[0].err)
        self.go_on(runs, 1)
        asked = self.trainer("checkpoint", "now", str(self.output)).wait()
        self.assertEqual(asked.code, 0, asked.err)
        self.go_on(runs, 2)
        self.assertNotIn("restart", runs[0].err)
        self.stop(runs)
        self.assert_undisturbed()

    def test_full_disk_ends_the_run_if_configured(self):
        runs = self.start_alone({"on_error": "stop"})
        self.finish(runs, 4)
        self.assertIn("the disk is full", runs[0].err)

    def test_stranger_is_rejected_and_the_run_continues(self):
        runs = [self.start_machine(0)]
        self.go_on(runs, 1)
        stranger = self.start_machine(1, "--join_timeout", "1", secret=("env", "TRAINER_SECRET=wrong")).wait()
        self.assertEqual(stranger.code, 6, stranger.err)
        self.assertIn("was rejected: 127.0.0.1 has a different secret", runs[0].err)
        self.go_on(runs, 1)
        self.stop(runs)

    def test_too_few_give_up(self):
        runs = [self.start(self.config, "--nnodes", "2:3", "--node_rank", "0", "--master_addr", self.address,
                           "--master_port", str(self.port), "--nproc_per_node", "1", "--join_timeout", "1")]
        self.finish(runs, 6)
        self.assertIn("the run needs at least 2 machines", runs[0].err)


class Namespaces(Elastic, three_machines_test.Switched):
    """The same tests, with each machine in its own network."""

    address = three_machines_test.HOST

    def setUp(self):
        super().setUp()
        self.before = tuple(("ip", "netns", "exec", space) for space in self.spaces)

    def test_leader_is_cut_off_and_not_succeeded(self):
        """It holds the folder's lock, and goes on alone; the others must not start a second history."""
        runs = [self.start_machine(number) for number in range(3)]
        self.go_on(runs, 3)
        self.cable(0, "down")
        until(lambda: all("restart 1 of 3" in run.err for run in runs))
        self.go_on(runs, 1)
        self.cable(0, "up")
        self.go_on(runs, 3)
        self.assertFalse(any("leads the run" in run.err for run in runs), runs[1].err)
        self.stop(runs)
        self.assert_undisturbed()

    def test_network_is_cut_and_restored(self):
        runs = [self.start_machine(number) for number in range(3)]
        self.go_on(runs, 3)
        self.cable(2, "down")
        until(lambda: "restart 1 of 3" in runs[0].err and "restart 1 of 3" in runs[2].err)
        self.go_on(runs, 2)  # the third machine looks for machine 0
        self.cable(2, "up")
        self.go_on(runs, 3)
        self.stop(runs)
        self.assert_undisturbed()


del Elastic  # its tests run in the classes above

if __name__ == "__main__":
    unittest.main()
