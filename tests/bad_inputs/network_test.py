"""Tests with several programs: strangers that connect to the rendezvous port, and machines that join twice or too late.
The rendezvous continues, and the run is not affected."""

import pathlib
import resource
import socket
import struct
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from support import EndToEnd, processes, results, until  # noqa: E402

SEVERAL = {"distributed_type": "MULTI_CPU", "num_processes": 2, "training": {"max_steps": 3}, "evaluation": None,
           "data": {"validation": None}}
SECRET = ("env", "TRAINER_SECRET=open-sesame-says-who-knows")
PEER = 6
GREETINGS = {
    "HTTP": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "SSH": b"SSH-2.0-OpenSSH_9.6\r\n",
    "Redis": b"*1\r\n$4\r\nPING\r\n",
    "NCCL": struct.pack("<QII", 0x4E43434C, 0, 1) + bytes(100),
    "a TCPStore": b"\x00" + struct.pack("<I", 0x3C85F7CE) + b"\x04" + struct.pack("<Q", 4) + b"init",
    "a frame of 2^32 - 1 bytes": b"\xff" * 4 + b"x" * 1000,
    "a frame of 2^32 - 1 bytes in network order": struct.pack(">I", 2**32 - 1) * 4,
    "zeros": bytes(70_000),
    "a host's name of 10 MB": b"hello " + b"h" * 10_000_000,
    "formats": b"%s%n%s%n {} {0:>999999999} \x1b[2J\nforged: a line of the log\n",
}
IDLE = 3000


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Network(EndToEnd):
    def machine(self, number, port, config, *flags, machines=2):
        return self.start(config, "--num_machines", str(machines), "--machine_rank", str(number), "--main_process_ip",
                          "127.0.0.1", "--main_process_port", str(port), "--num_processes", str(machines), *flags,
                          before=SECRET)

    def knock(self, port, content):
        """Connects as a stranger and sends `content`, as far as it is accepted."""
        stranger = socket.create_connection(("127.0.0.1", port), timeout=10)
        self.addCleanup(stranger.close)
        try:
            stranger.sendall(content)
        except OSError:
            pass  # the other side closed the connection
        return stranger

    def test_strangers(self):
        port = free_port()
        config = self.job("output", SEVERAL)
        host = self.machine(0, port, config)
        until(lambda: listens(port))
        before = memory_of(host.pid)
        for content in GREETINGS.values():
            self.knock(port, content)
        half = self.knock(port, b"\x10\x00")  # and then nothing
        for _ in range(min(IDLE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)):
            idle = socket.socket()
            idle.setblocking(False)
            idle.connect_ex(("127.0.0.1", port))
            self.addCleanup(idle.close)
        grown = memory_of(host.pid) - before
        guest = self.machine(1, port, config)
        self.assertEqual(host.wait().code, 0, host.err)
        self.assertEqual(guest.wait().code, 0, guest.err)
        half.close()
        self.assertEqual(len(results(self.folder / "output")), 3)
        self.assertNotIn("\x1b[2J", host.err)
        self.assertNotIn("\nforged", host.err)
        self.assertLess(max(map(len, host.err.splitlines())), 2000)
        self.assertLess(grown, 32 << 10)  # kibibytes, for 3,000 strangers
        self.assert_nothing_runs()

    def test_machine_twice(self):
        port = free_port()
        config = self.job("output", SEVERAL)
        host = self.machine(0, port, config, machines=3)
        until(lambda: listens(port))
        first = self.machine(1, port, config, machines=3)
        until(lambda: "machine 1" in host.err and "2 of 3" in host.err or first.ended() or len(processes(first.mark)) > 1)
        again = self.machine(1, port, config, machines=3)
        until(lambda: again.ended() or first.ended())
        refused = again if again.ended() else first
        self.assertNotEqual(refused.code, 0)
        self.assertRegex(refused.err, "machine 1|machine_rank")
        for run in (host, first, again):
            if not run.ended():
                run.kill()

    def test_of_another_run(self):
        """A machine with the secret but the settings of another run is refused, and the rendezvous continues."""
        port = free_port()
        config = self.job("output", SEVERAL)
        host = self.machine(0, port, config)
        until(lambda: listens(port))
        stale = self.machine(1, port, self.job("stale", SEVERAL, {"seed": 99, "output_dir": str(self.folder / "output")}))
        until(stale.ended)
        self.assertIn(stale.code, (2, PEER), stale.err)
        self.assertIn("seed", stale.err)
        if not host.ended():
            host.kill()


def memory_of(pid):
    """The resident memory of a process in KiB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    return 0


if __name__ == "__main__":
    unittest.main()
