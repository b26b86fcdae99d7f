"""Three machines, each a network namespace, on one switch (a bridge in a fourth): how a run handles the network."""

import ctypes
import os
import random
import socket
import subprocess
import threading
import time
import unittest

from machines_test import LONG, RESTARTED, SECRET, SHORT, Networks
from support import last_step, listening_ports, processes, until

SHARDED = {"distributed_type": "FSDP", "num_processes": 3, "fsdp_config": {"fsdp_version": 1}}
HOST = "10.98.0.1"
PORT = 29500
CLONE_NEWNET = 0x40000000  # of sched.h
PAUSE = 1.5  # seconds without network that must not count as a loss
GARBAGE = 12  # connections to each open port


class Switched(Networks):
    """10.98.0.1 to .3; machine N is connected to port sN of the switch."""

    def setUp(self):
        super().setUp()
        self.switch, *self.spaces = self.make_spaces("switch", 0, 1, 2)
        self.ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        self.ip("-n", self.switch, "link", "set", "bridge", "up")
        for number, space in enumerate(self.spaces):
            self.ip("link", "add", "eth", "netns", space, "type", "veth", "peer", "name", f"s{number}", "netns",
                    self.switch)
            self.ip("-n", self.switch, "link", "set", f"s{number}", "master", "bridge")
            self.ip("-n", self.switch, "link", "set", f"s{number}", "up")
            self.ip("-n", space, "addr", "add", f"10.98.0.{number + 1}/24", "dev", "eth")
            self.ip("-n", space, "link", "set", "lo", "up")
            self.ip("-n", space, "link", "set", "eth", "up")

    def cable(self, number, state):
        self.ip("-n", self.switch, "link", "set", f"s{number}", state)

    def start_one(self, config, number, *flags, secret=SECRET):
        return self.start(config, "--nnodes", "3", "--node_rank", str(number), "--master_addr", HOST, "--master_port",
                          str(PORT), "--nproc_per_node", "1", *flags,
                          before=("ip", "netns", "exec", self.spaces[number], *secret))

    def start_all(self, config, *flags):
        return [self.start_one(config, number, *flags) for number in range(3)]

    def running(self, *changes):
        """A run on all three that has begun to train."""
        runs = self.start_all(self.job("output", SHARDED, *changes))
        until(lambda: last_step(self.folder / "output") >= 2 or any(run.ended() for run in runs))
        return runs

    def check_as_undisturbed(self, runs, *changes):
        self.finish(runs, 0)
        self.launch(self.job("expected", SHARDED, *changes))
        self.assert_same_run(self.folder / "output", self.folder / "expected")
        self.assert_nothing_runs()


class ThreeMachines(Switched):
    def test_a_machine_is_cut_off(self):
        runs = self.running(LONG)
        self.cable(2, "down")
        self.finish(runs, 6)
        self.assertRegex(runs[0].err, r"machine 2 \(.*, 10\.98\.0\.3\) was lost: ")
        self.assertRegex(runs[1].err, r"machine 2 \(.*, 10\.98\.0\.3\) was lost: ")
        self.assertRegex(runs[2].err, r"machine 0 \(.*, 10\.98\.0\.1\) was lost: ")
        self.assert_nothing_runs()

    def test_the_leader_is_cut_off(self):
        runs = self.running(LONG)
        self.cable(0, "down")
        self.finish(runs, 6)
        for run in runs[1:]:
            self.assertRegex(run.err, r"machine 0 \(.*, 10\.98\.0\.1\) was lost: ")
        self.assert_nothing_runs()

    def test_a_short_network_outage_has_no_effect(self):
        medium = {"training": {"max_steps": 200}, "evaluation": None, "data": {"validation": None},
                  "checkpoint": {"save_steps": 0}}
        runs = self.running(medium)
        self.cable(1, "down")
        time.sleep(PAUSE)
        self.cable(1, "up")
        self.check_as_undisturbed(runs, medium)

    def test_a_machine_is_lost_and_comes_back(self):
        runs = self.running(RESTARTED)
        until(lambda: last_step(self.folder / "output") >= 7)
        runs[2].kill()
        for run in runs[:2]:
            until(lambda: "restart 1 of 3" in run.err)
        runs[2] = self.start_one(self.folder / "output.yaml", 2)
        self.check_as_undisturbed(runs, RESTARTED)

    def test_a_link_of_one_megabit(self):
        shaped = ("tc", "-n", self.switch, "qdisc", "add", "dev", "s1", "root", "tbf", "rate", "1mbit", "burst", "16kb",
                  "latency", "400ms")
        made = subprocess.run(shaped, capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"links cannot be shaped (tc): {made.stderr.strip()}")
        self.check_as_undisturbed(self.running(SHORT), SHORT)


class Strangers(Switched):
    """A stranger on machine 1's network, who knows the addresses but not the secret."""

    def open_ports(self):
        """(address, port) of every listening socket."""
        spaces = {os.stat(f"/run/netns/{space}").st_ino: f"10.98.0.{number + 1}"
                  for number, space in enumerate(self.spaces)}
        return sorted((spaces[os.stat(f"/proc/{pid}/ns/net").st_ino], port)
                      for pid in processes(self.mark) for port in listening_ports([pid]))

    def disturb_from(self, number, targets, seed):
        """Runs disturb() from a machine's network, in a thread that enters its namespace."""
        def enter_and_disturb():
            with open(f"/run/netns/{self.spaces[number]}") as space:
                if ctypes.CDLL(None).setns(space.fileno(), CLONE_NEWNET) == 0:
                    reached.append(self.disturb(targets, seed))
        reached = []
        thread = threading.Thread(target=enter_and_disturb)
        thread.start()
        thread.join()
        self.assertGreater(reached[0], 0)

    @staticmethod
    def disturb(targets, seed):
        """Connects and sends nothing, garbage, an incomplete message, or a lot; returns the number of connections."""
        chance, reached = random.Random(seed), 0
        for address, port in targets * GARBAGE:
            words = [b"", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", chance.randbytes(chance.randrange(1, 64)), b"\0" * 4096,
                     b"\xff" * 8, (1 << 20).to_bytes(4, "little") + b"x", chance.randbytes(100_000)]
            try:
                with socket.create_connection((address, port), timeout=1) as line:
                    reached += 1
                    line.settimeout(0.2)
                    line.sendall(chance.choice(words))
                    if chance.random() < 0.5:
                        line.recv(4096)
            except OSError:
                pass
        return reached

    def test_garbage_on_every_open_port(self):
        medium = {"training": {"max_steps": 300}, "evaluation": None, "data": {"validation": None},
                  "checkpoint": {"save_steps": 0}}
        runs = self.running(medium)
        targets = self.open_ports()
        self.assertTrue(targets)
        self.disturb_from(1, targets, seed=7)
        self.check_as_undisturbed(runs, medium)

    def test_garbage_while_machines_meet(self):
        config = self.job("output", SHARDED, SHORT)
        runs = [self.start_one(config, number) for number in (0, 1)]
        until(lambda: (HOST, PORT) in self.open_ports())
        self.disturb_from(1, [(HOST, PORT)], seed=8)
        runs.append(self.start_one(config, 2))
        self.check_as_undisturbed(runs, SHORT)

    def test_a_stranger_is_rejected_and_the_run_starts(self):
        config = self.job("output", SHARDED, SHORT)
        runs = [self.start_one(config, number) for number in (0, 1)]
        until(lambda: (HOST, PORT) in self.open_ports())
        stranger = self.start_one(config, 2, "--join_timeout", "1", secret=("env", "TRAINER_SECRET=guessed"))
        self.finish([stranger], 6)
        self.assertIn("a different secret", stranger.err)
        until(lambda: "10.98.0.3 has a different secret" in runs[0].err)
        runs.append(self.start_one(config, 2))
        self.check_as_undisturbed(runs, SHORT)

    def test_two_runs_on_one_port(self):
        config = self.job("output", SHARDED, SHORT)
        runs = [self.start_one(config, 0)]
        until(lambda: (HOST, PORT) in self.open_ports())
        other = self.start_one(self.job("other", SHARDED, SHORT), 0)
        self.finish([other], 4)
        self.assertIn(f"cannot listen on {HOST}:{PORT}: the port is in use", other.err)
        self.check_as_undisturbed(runs + [self.start_one(config, number) for number in (1, 2)], SHORT)


if __name__ == "__main__":
    unittest.main()
