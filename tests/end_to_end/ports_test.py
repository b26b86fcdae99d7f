"""The port at which machines meet: in use, not permitted, or that of another run."""

import os
import shutil
import signal
import socket
import subprocess
import unittest

import machines_test
from machines_test import LONG, SECRET, SHARDED, SHORT, free_port
from support import TRAINER, last_step, until

MOST_LINES = 6  # of a message
OTHER_SECRET = ("env", "TRAINER_SECRET=another")


class Ports(machines_test.Machines):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def start_one(self, config, number, *flags, before=(), secret=SECRET):
        return self.start(config, "--nnodes", "2", "--node_rank", str(number), "--master_addr", "127.0.0.1",
                          "--master_port", str(self.port), "--nproc_per_node", "2", *flags, before=(*before, *secret))

    def meeting(self, config):
        """Machine 0, which listens."""
        run = self.start_one(config, 0)
        until(lambda: "waiting for machine 1" in run.err)
        return run

    def check_refused(self, run, code, *texts):
        """Machine 0 or 1 refuses to start, with a short message."""
        self.finish([run], code)
        for text in texts:
            self.assertIn(text, run.err)
        self.assertLessEqual(len(run.err.splitlines()), MOST_LINES, run.err)

    def test_another_program_has_it(self):
        with socket.create_server(("127.0.0.1", self.port)):
            run = self.start_one(self.job("output", SHORT, SHARDED), 0)
            self.check_refused(run, 4, f"cannot listen on 127.0.0.1:{self.port}: the port is in use by process "
                                       f"{os.getpid()} (", "set another main_process_port on all machines")
        self.assertFalse((self.folder / "output").exists())

    def test_another_run_has_it(self):
        config = self.job("output", SHORT, SHARDED)
        first = self.meeting(config)
        other = self.start_one(self.job("other", SHORT, SHARDED), 0)
        self.check_refused(other, 4, f"the port is in use by process {first.pid} (trainer)")
        self.assertFalse((self.folder / "other").exists())
        self.finish([first, self.start_one(config, 1)], 0)

    def test_a_machine_of_a_run_with_another_secret(self):
        config = self.job("output", SHORT, SHARDED)
        first = self.meeting(config)
        stray = self.start_one(self.job("other", SHORT, SHARDED), 1, "--join_timeout", "1", secret=OTHER_SECRET)
        self.check_refused(stray, 6, f"machine 0 at 127.0.0.1:{self.port} has a different secret")
        until(lambda: "127.0.0.1 has a different secret" in first.err)
        self.finish([first, self.start_one(config, 1)], 0)

    def test_a_machine_of_another_job(self):
        """With the same secret, this counts as a mistake in how the run was started."""
        first = self.meeting(self.job("output", SHORT, SHARDED))
        stray = self.start_one(self.job("other", SHORT, SHARDED, {"seed": 8}), 1)
        for run in (first, stray):
            self.finish([run], 2)
            self.assertRegex(run.err, r"the machines differ:\n  seed: 7 \(.*\) on machine 0, 8 \(.*\) on machine 1")
        self.assertFalse((self.folder / "output").exists())

    def test_a_run_that_trains_keeps_its_port(self):
        """Another program that took it would make restarts impossible."""
        first = self.start_both(self.job("output", LONG, SHARDED), "127.0.0.1", self.port)
        until(lambda: last_step(self.folder / "output") >= 2)
        other = self.start_one(self.job("other", SHORT, SHARDED), 0)
        self.check_refused(other, 4, f"the port is in use by process {first[0].pid} (trainer)")
        self.assertFalse(any(run.ended() for run in first))
        os.kill(first[0].pid, signal.SIGTERM)
        self.finish(first, 143)

    def test_missing_interface(self):
        for number in (0, 1):
            run = self.start_one(self.job("output", SHORT, SHARDED), number, before=("env", "GLOO_SOCKET_IFNAME=none0"))
            self.check_refused(run, 4, "GLOO_SOCKET_IFNAME is none0, but this machine has no such interface", "lo")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "root and setpriv are needed to change the user")
    def test_low_port(self):
        nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        if subprocess.run([*nobody, TRAINER, "--help"], capture_output=True, check=False).returncode != 0:
            self.skipTest("the user nobody cannot run the program at its path")
        with open("/proc/sys/net/ipv4/ip_unprivileged_port_start") as first:
            self.port = int(first.read()) - 1
        if self.port < 1:
            self.skipTest("every user may use all ports")
        output = self.folder / "open"
        output.mkdir()
        output.chmod(0o777)
        run = self.start_one(self.job("open/output", SHORT, SHARDED), 0, before=nobody)
        self.check_refused(run, 4, f"cannot listen on 127.0.0.1:{self.port}: this account is not allowed to use ports "
                                   "this low")

    def test_port_0(self):
        """Not allowed: the other machines could not know the assigned port."""
        self.port = 0
        self.check_refused(self.start_one(self.job("output", SHORT, SHARDED), 0), 2, "main_process_port is 0")


if __name__ == "__main__":
    unittest.main()
