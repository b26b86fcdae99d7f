"""Several machines: two launchers on one address, and two network namespaces connected by a veth pair."""

import json
import os
import signal
import socket
import subprocess
import unittest
import uuid

from support import TRAINER, EndToEnd, last_step, results, until

DATA_PARALLEL = {"distributed_type": "MULTI_CPU", "num_processes": 4}
SHARDED = {"distributed_type": "FSDP", "num_processes": 4, "fsdp_config": {"fsdp_version": 1}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}
SHORT = {"training": {"max_steps": 6}}
RESTARTED = {"max_restarts": 3, "training": {"max_steps": 60}, "evaluation": None, "data": {"validation": None},
             "checkpoint": {"save_steps": 5}}
SECRET = ("env", "TRAINER_SECRET=open-sesame")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Machines(EndToEnd):
    def start_both(self, config, address, port, before=((), ()), flags=((), ()), secrets=(SECRET, SECRET), only=None):
        """Starts machine 0 and machine 1, or `only` one of them, with torchrun's flags."""
        return [self.start(config, "--nnodes", "2", "--node_rank", str(number), "--master_addr", address,
                           "--master_port", str(port), "--nproc_per_node", "2", *flags[number],
                           before=(*before[number], *secrets[number]))
                for number in ((0, 1) if only is None else (only,))]

    def finish(self, runs, code):
        for run in runs:
            self.assertEqual(run.wait().code, code, run.err)

    def check_equal(self, address, before=((), ())):
        """2 + 2 ranks give the same results as 4."""
        for name, strategy in (("copies", DATA_PARALLEL), ("shards", SHARDED)):
            self.launch(self.job(f"{name}-expected", SHORT, strategy))
            runs = self.start_both(self.job(name, SHORT, strategy), address, free_port(), before)
            self.finish(runs, 0)
            self.assert_same_run(self.folder / name, self.folder / f"{name}-expected")
            self.assertTrue(results(self.folder / name))


class OneAddress(Machines):
    def test_same_numbers(self):
        self.check_equal("127.0.0.1")

    def test_same_numbers_over_ipv6(self):
        if not os.path.exists("/proc/net/if_inet6"):
            self.skipTest("no IPv6 here")
        self.check_equal("::1")

    def test_accelerates_flags(self):
        config = self.job("output", SHORT, {**SHARDED, "num_processes": 1})
        port = str(free_port())
        runs = [self.start(config, "--num_machines", "2", "--machine_rank", str(number), "--main_process_ip",
                           "127.0.0.1", "--main_process_port", port, "--num_processes", "4", before=SECRET)
                for number in (0, 1)]
        self.finish(runs, 0)
        self.launch(self.job("expected", SHORT, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def test_environment_of_a_scheduler(self):
        config = self.job("output", SHORT, DATA_PARALLEL)
        port = free_port()
        runs = [self.start(config, "--nproc_per_node", "2",
                           before=("env", "MASTER_ADDR=127.0.0.1", f"MASTER_PORT={port}", "WORLD_SIZE=2",
                                   f"RANK={number}"))
                for number in (0, 1)]
        self.finish(runs, 0)
        self.assertIn("RANK=1 MASTER_ADDR=127.0.0.1", runs[1].err + runs[1].out)
        self.assertIn("read as machine 1 of 2, with 2 ranks each", runs[1].err + runs[1].out)

    def test_stop_is_saved_and_resumed(self):
        medium = {"training": {"max_steps": 40}, "evaluation": None, "data": {"validation": None},
                  "checkpoint": {"save_steps": 0}}
        config = self.job("output", medium, SHARDED)
        runs = self.start_both(config, "127.0.0.1", free_port())
        until(lambda: last_step(self.folder / "output") >= 3)
        os.kill(runs[1].pid, signal.SIGTERM)
        self.finish(runs, 143)
        step = last_step(self.folder / "output")
        self.assertTrue((self.folder / f"output/checkpoint-{step}/manifest.json").exists())
        self.finish(self.start_both(config, "127.0.0.1", free_port()), 0)
        self.launch(self.job("expected", medium, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def test_rank_dies(self):
        runs = self.start_both(self.job("output", LONG, SHARDED), "127.0.0.1", free_port())
        until(lambda: last_step(self.folder / "output") >= 2)
        ranks = runs[0].ranks()
        os.kill(ranks[3], signal.SIGKILL)
        self.finish(runs, 137)
        for run in runs:
            self.assertRegex(run.err, r"rank 3 on machine 1 \(.*\), step \d+ .*killed by signal 9 \(SIGKILL\)")
        outcome = json.loads((self.folder / "output/outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["rank"]), (137, 3))
        self.assert_nothing_runs()

    def test_machine_dies(self):
        runs = self.start_both(self.job("output", LONG, DATA_PARALLEL), "127.0.0.1", free_port())
        until(lambda: last_step(self.folder / "output") >= 2)
        runs[1].kill()
        self.finish(runs[:1], 6)
        self.assertRegex(runs[0].err, r"trainer: step \d+: machine 1 \(.*\) was lost: ")
        self.assert_nothing_runs()

    def check_restarted(self, runs, strategy):
        self.finish(runs, 0)
        self.launch(self.job("expected", RESTARTED, strategy))
        self.assert_same_run(self.folder / "output", self.folder / "expected")
        self.assert_nothing_runs()

    def test_lost_rank_is_restarted(self):
        runs = self.start_both(self.job("output", RESTARTED, SHARDED), "127.0.0.1", free_port())
        until(lambda: last_step(self.folder / "output") >= 7)
        os.kill(runs[0].ranks()[3], signal.SIGKILL)
        self.check_restarted(runs, SHARDED)
        for run in runs:
            self.assertRegex(run.err, r"killed by signal 9 \(SIGKILL\)\ntrainer: restart 1 of 3, from .*checkpoint-")

    def check_comes_back(self, machine):
        port = free_port()
        config = self.job("output", RESTARTED, DATA_PARALLEL)
        runs = self.start_both(config, "127.0.0.1", port)
        until(lambda: last_step(self.folder / "output") >= 7)
        runs[machine].kill()
        until(lambda: "restart 1 of 3" in runs[1 - machine].err)
        runs[machine] = self.start_both(config, "127.0.0.1", port, only=machine)[0]
        self.check_restarted(runs, DATA_PARALLEL)

    def test_lost_machine_comes_back(self):
        self.check_comes_back(1)

    def test_lost_leader_comes_back(self):
        self.check_comes_back(0)

    def test_wrong_secret(self):
        runs = self.start_both(self.job("output", SHORT, SHARDED), "127.0.0.1", free_port(),
                               flags=((), ("--join_timeout", "1")),
                               secrets=(SECRET, ("env", "TRAINER_SECRET=wrong")))
        self.finish(runs[1:], 6)
        for run in runs:
            self.assertIn("a different secret", run.err)
        os.kill(runs[0].pid, signal.SIGTERM)  # it still waits for machine 1
        self.finish(runs[:1], 143)
        self.assertFalse((self.folder / "output").exists())


def why_no_namespaces():
    """"" when this test can create network namespaces."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        probe = subprocess.run(["ip", "netns", "add", "trainer-probe"], capture_output=True, text=True)
    except FileNotFoundError:
        return "`ip` is missing (iproute2)"
    subprocess.run(["ip", "netns", "del", "trainer-probe"], capture_output=True)
    return "" if probe.returncode == 0 else f"network namespaces cannot be made: {probe.stderr.strip()}"


class Networks(Machines):
    """Machines that each have their own network."""

    def make_spaces(self, *names):
        """Creates network namespaces; skips the test where that is impossible."""
        why = why_no_namespaces()
        if why:
            self.skipTest(why)
        spaces = [f"trainer-{uuid.uuid4().hex[:6]}-{name}" for name in names]
        for space in spaces:
            self.ip("netns", "add", space)
            self.addCleanup(subprocess.run, ["ip", "netns", "del", space], capture_output=True)
        return spaces

    def ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)


class TwoNetworks(Networks):
    """Each machine has its own network; 10.99.0.1 and fd99::1 are machine 0's addresses."""

    def setUp(self):
        super().setUp()
        self.spaces = self.make_spaces(0, 1)
        self.cables = [f"tr{uuid.uuid4().hex[:6]}{number}" for number in (0, 1)]
        self.connect(*self.spaces)
        self.before = tuple(("ip", "netns", "exec", space) for space in self.spaces)

    def connect(self, *spaces):
        """A cable between two networks, which get machine 0's and machine 1's addresses."""
        self.ip("link", "add", self.cables[0], "netns", spaces[0], "type", "veth", "peer", "name", self.cables[1], "netns",
                spaces[1])
        for number, (space, cable) in enumerate(zip(spaces, self.cables)):
            inside = ("-n", space)
            self.ip(*inside, "addr", "add", f"10.99.0.{number + 1}/24", "dev", cable)
            self.ip(*inside, "addr", "add", f"fd99::{number + 1}/64", "dev", cable, "nodad")
            self.ip(*inside, "link", "set", "lo", "up")
            self.ip(*inside, "link", "set", cable, "up")


class Namespaces(TwoNetworks):
    def test_same_numbers(self):
        self.check_equal("10.99.0.1", self.before)

    def test_same_numbers_over_ipv6(self):
        self.check_equal("fd99::1", self.before)

    def test_machine_dies(self):
        runs = self.start_both(self.job("output", LONG, SHARDED), "10.99.0.1", 29500, self.before)
        until(lambda: last_step(self.folder / "output") >= 2)
        runs[1].kill()
        self.finish(runs[:1], 6)
        self.assertRegex(runs[0].err, r"machine 1 \(.*, 10\.99\.0\.2\) was lost: ")

    def test_network_is_cut(self):
        runs = self.start_both(self.job("output", LONG, DATA_PARALLEL), "10.99.0.1", 29500, self.before)
        until(lambda: last_step(self.folder / "output") >= 2)
        self.ip("-n", self.spaces[1], "link", "set", self.cables[1], "down")
        self.finish(runs, 6)
        self.assertRegex(runs[0].err, r"machine 1 \(.*, 10\.99\.0\.2\) was lost: ")
        self.assertRegex(runs[1].err, r"machine 0 \(.*, 10\.99\.0\.1\) was lost: ")
        self.assert_nothing_runs()

    def test_cut_network_is_restored(self):
        runs = self.start_both(self.job("output", RESTARTED, SHARDED), "10.99.0.1", 29500, self.before)
        until(lambda: last_step(self.folder / "output") >= 7)
        self.ip("-n", self.spaces[1], "link", "set", self.cables[1], "down")
        for run in runs:
            until(lambda: "restart 1 of 3" in run.err)
        self.ip("-n", self.spaces[1], "link", "set", self.cables[1], "up")
        self.finish(runs, 0)
        self.launch(self.job("expected", RESTARTED, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")
        self.assert_nothing_runs()

    def test_wrong_secret(self):
        runs = self.start_both(self.job("output", SHORT, SHARDED), "10.99.0.1", 29500, self.before,
                               flags=((), ("--join_timeout", "1")),
                               secrets=(SECRET, ("env", "TRAINER_SECRET=wrong")))
        self.finish(runs[1:], 6)
        self.assertIn("10.99.0.2 has a different secret", runs[0].err)
        os.kill(runs[0].pid, signal.SIGTERM)
        self.finish(runs[:1], 143)

    def test_missing_secret(self):
        runs = self.start_both(self.job("output", SHORT, DATA_PARALLEL), "10.99.0.1", 29500, self.before,
                               secrets=((), ()))
        self.finish(runs, 2)
        for run in runs:
            self.assertIn("have no secret: anyone who can reach 10.99.0.1:29500 could join", run.err)
        self.assertFalse((self.folder / "output").exists())

    def test_new_secret(self):
        file = self.folder / "secret"
        words = [TRAINER, "launch", "--new_secret", file]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        self.assertIn(f"export TRAINER_SECRET_FILE={file}\n", said)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        secret = file.read_text()
        self.assertRegex(secret, r"^[0-9a-f]{64}\n$")
        again = subprocess.run(words, capture_output=True, text=True)
        self.assertEqual((again.returncode, file.read_text()), (2, secret), again.stderr)
        named = ("env", f"TRAINER_SECRET_FILE={file}")
        self.finish(self.start_both(self.job("output", SHORT, DATA_PARALLEL), "10.99.0.1", 29500, self.before,
                                    secrets=(named, named)), 0)

    def test_no_secret_by_choice(self):
        none = ("env", "TRAINER_SECRET_FILE=none")
        runs = self.start_both(self.job("output", SHORT, DATA_PARALLEL), "10.99.0.1", 29500, self.before,
                               secrets=(none, none))
        self.finish(runs, 0)
        self.assertIn("(TRAINER_SECRET_FILE=none): anyone who can reach 10.99.0.1:29500 may join", runs[0].err)

    def test_named_interface(self):
        named = tuple((*self.before[number], "env", f"GLOO_SOCKET_IFNAME={self.cables[number]}") for number in (0, 1))
        self.finish(self.start_both(self.job("output", SHORT, DATA_PARALLEL), "10.99.0.1", 29500, named), 0)


if __name__ == "__main__":
    unittest.main()
