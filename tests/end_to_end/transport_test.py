"""Tensors between machines: what a sniffer sees of them, and what strangers on their network can do."""

import ctypes
import os
import re
import signal
import socket
import struct
import threading
import time
import unittest

from machines_test import DATA_PARALLEL, RESTARTED, SECRET, SHARDED, SHORT, TwoNetworks
from support import EndToEnd, last_step, listening_ports, until

CLONE_NEWNET = 0x40000000  # of sched.h
ALL_PROTOCOLS = 3  # of linux/if_ether.h
PORT = 29500  # where the launchers meet
MACHINE_0 = "10.99.0.1"
REFUSED = "refused a connection from "
TAMPERED = "was tampered with"
CLIENT_HELLO = b"\x16\x03\x01"
SAMPLED = 64  # pieces of the weights
SETTLED = 0.3  # seconds
NUMBERS = 16  # connections that begin as Gloo's do: with the sequence number of a pair


def in_namespace(space, action):
    """The result of action(), called in a network namespace. A socket keeps the namespace in which it was made."""
    results = []

    def enter():
        with open(f"/run/netns/{space}") as file:
            if ctypes.CDLL(None).setns(file.fileno(), CLONE_NEWNET) == 0:
                results.append(action())
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    return results[0]


class Segment:
    """A TCP segment over IPv4, in an Ethernet frame."""

    def __init__(self, frame):
        ip = frame[14:]
        self.is_tcp = frame[12:14] == b"\x08\x00" and ip[9] == socket.IPPROTO_TCP
        if not self.is_tcp:
            return
        head, total = 4 * (ip[0] & 15), int.from_bytes(ip[2:4], "big")
        self.ethernet, self.ip, self.tcp = frame[:14], ip[:head], ip[head:total]
        self.source, self.target = struct.unpack(">HH", self.tcp[:4])
        self.sequence, = struct.unpack(">I", self.tcp[4:8])
        self.offset = 4 * (self.tcp[12] >> 4)
        self.payload = self.tcp[self.offset:]
        self.flow = (self.ip[12:16], self.source, self.ip[16:20], self.target)

    def followed_by(self, payload):
        """A frame with the segment that would come after this one."""
        sequence = (self.sequence + len(self.payload)) % 2**32
        tcp = bytearray(self.tcp[:self.offset]) + payload
        tcp[4:8], tcp[13], tcp[16:18] = struct.pack(">I", sequence), 0x18, b"\0\0"  # PSH and ACK
        ip = bytearray(self.ip)
        ip[2:4], ip[10:12] = struct.pack(">H", len(ip) + len(tcp)), b"\0\0"
        ip[10:12] = checksum(bytes(ip))
        pseudo = bytes(ip[12:20]) + struct.pack(">HH", socket.IPPROTO_TCP, len(tcp))
        tcp[16:18] = checksum(pseudo + bytes(tcp))
        return self.ethernet + bytes(ip) + bytes(tcp)


def checksum(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return struct.pack(">H", ~total & 0xffff)


def settled(ports, count):
    """`count` ports that stay the same: Gloo opens another one for a moment when it starts."""
    def found():
        before = ports()
        time.sleep(SETTLED)
        return len(before) == count and ports() == before and before
    return until(found)


class Sniffer:
    """Records every TCP segment on a cable that isn't one of the launchers', or only theirs. With `cut_in`, sends as many
    more."""

    def __init__(self, space, cable, cut_in=None, of_launchers=False):
        self.segments = []
        self._cut_in = cut_in
        self._of_launchers = of_launchers
        self._socket = in_namespace(space, lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW,
                                                                 socket.htons(ALL_PROTOCOLS)))
        self._socket.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: nothing may be lost
        self._socket.bind((cable, ALL_PROTOCOLS))
        self._socket.settimeout(0.1)
        self._ends = False
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def _listen(self):
        while True:
            try:
                segment = Segment(self._socket.recv(1 << 17))
            except TimeoutError:
                if self._ends:
                    return
                continue
            if not segment.is_tcp or not segment.payload:
                continue
            if (PORT in (segment.source, segment.target)) == self._of_launchers:
                self.segments.append(segment)
                if self._cut_in:
                    self._cut_in(self._socket, segment)

    def stop(self):
        if not self._ends:
            self._ends = True
            self._thread.join()
            self._socket.close()
        return self.segments


class Transport(TwoNetworks):
    def record(self, cut_in=None, machine=0, of_launchers=False):
        sniffer = Sniffer(self.spaces[machine], self.cables[machine], cut_in, of_launchers)
        self.addCleanup(sniffer.stop)
        return sniffer

    def start_pair(self, *changes, output="output"):
        return self.start_both(self.job(output, SHARDED, *changes), MACHINE_0, PORT, self.before)

    def expect(self, *changes, output="output"):
        self.launch(self.job(f"{output}-expected", SHARDED, *changes))
        self.assert_same_run(self.folder / output, self.folder / f"{output}-expected")

    def logs(self, output="output"):
        """What the ranks have logged."""
        return "".join(path.read_text() for path in sorted((self.folder / output / "logs").glob("rank-*.log")))

    def hold_rank(self, run, number):
        """Stops a rank before it meets the others, which then wait for it."""
        pid = until(lambda: run.ranks().get(number))
        os.kill(pid, signal.SIGSTOP)
        return pid


class Sniffed(Transport):
    def seen(self, transport):
        """How many of some pieces of the final weights, 4 floats each, pass the cable in clear."""
        sniffer = self.record()
        self.finish(self.start_pair(SHORT, {"training": {"gloo_transport": transport}}, output=transport), 0)
        return self.floats_in(sniffer, transport)

    def floats_in(self, sniffer, output):
        traffic = b"".join(segment.payload for segment in sniffer.stop())
        self.assertGreater(len(traffic), 100_000)
        file = (self.folder / output / "model.safetensors").read_bytes()
        weights = file[8 + int.from_bytes(file[:8], "little"):]
        places = range(0, len(weights) - 16, (len(weights) // SAMPLED) & ~15)
        pieces = {weights[place:place + 16] for place in places}
        return sum(piece in traffic for piece in pieces if any(piece))

    def test_only_tls_shows_no_float(self):
        for transport in ("tcp", "authenticated"):
            self.assertGreater(self.seen(transport), SAMPLED // 4, transport)
        self.assertEqual(self.seen("tls"), 0)
        for transport in ("tcp", "authenticated"):  # the same losses and weights
            self.assert_same_run(self.folder / transport, self.folder / "tls")
        self.expect(SHORT, output="tls")


    def seen_of_copies(self, name, secret):
        """The same for the launchers' connection, over which machine 1 gets copies of the checkpoints and the model."""
        sniffer = self.record(of_launchers=True)
        config = self.job(name, SHARDED, SHORT, {"checkpoint": {"replicas": 2}})
        runs = self.start_both(config, MACHINE_0, PORT, self.before, secrets=(secret, secret),
                               flags=((), ("--output_dir", str(self.folder / f"{name}-copy"))))
        self.finish(runs, 0)
        copied = (self.folder / f"{name}-copy/model.safetensors").read_bytes()
        self.assertEqual(copied, (self.folder / name / "model.safetensors").read_bytes())
        return self.floats_in(sniffer, name)

    def test_copies_of_checkpoints_show_no_float_with_a_secret(self):
        self.assertGreater(self.seen_of_copies("open", ("env", "TRAINER_SECRET_FILE=none")), SAMPLED // 4)
        self.assertEqual(self.seen_of_copies("secret", SECRET), 0)


class Strangers(Transport):
    """They are on machine 1's network, know every port, and come before machine 1's last rank."""

    def gloo_ports(self, runs):
        return settled(lambda: listening_ports(pid for rank, pid in runs[0].ranks().items() if rank < 2), 2)

    def disturb(self, ports, words):
        """Connections that each send one of `words`; they stay open until the test ends."""
        def connect():
            lines = []
            for port in ports:
                for word in words:
                    line = socket.create_connection((MACHINE_0, port), timeout=10)
                    try:
                        line.sendall(word)
                    except OSError:
                        pass  # refused already
                    lines.append(line)
            return lines
        lines = in_namespace(self.spaces[1], connect)
        for line in lines:
            self.addCleanup(line.close)
        return lines

    def recorded(self):
        """What the ranks of machine 1 sent to machine 0 in a run with the same secret, by connection."""
        sniffer = self.record()
        self.finish(self.start_pair(SHORT, output="before"), 0)
        flows = {}
        for segment in sniffer.stop():
            flows[segment.flow] = flows.get(segment.flow, b"") + segment.payload
        found = [flow for flow in flows.values() if flow.startswith(CLIENT_HELLO)]
        self.assertTrue(found)
        return found

    def check_refused(self, words, transport):
        runs = self.start_pair(SHORT, {"training": {"gloo_transport": transport}}, output=transport)
        held = self.hold_rank(runs[1], 3)
        lines = self.disturb(self.gloo_ports(runs), words)
        os.kill(held, signal.SIGCONT)
        self.finish(runs, 0)
        self.expect(SHORT, output=transport)
        logs = self.logs(transport)
        self.assertEqual(logs.count(REFUSED + "10.99.0.2:"), len(lines), logs)

    def test_garbage_gloos_own_greeting_and_a_replay_are_refused(self):
        words = [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 5000, *(number.to_bytes(8, "little") for number in range(NUMBERS)),
                 *(flow[:200_000] for flow in self.recorded()[:1])]
        for transport in ("tls", "authenticated"):
            with self.subTest(transport):
                self.check_refused(words, transport)

    def test_no_port_is_open_while_ranks_train(self):
        runs = self.start_pair(RESTARTED)
        until(lambda: last_step(self.folder / "output") >= 2)
        for run in runs:
            self.assertEqual(listening_ports(run.ranks().values()), set())
        os.kill(runs[0].pid, signal.SIGTERM)
        self.finish(runs, 143)


class CutsIn(Transport):
    def test_a_forged_segment_ends_the_attempt_and_the_restart_gives_the_same_results(self):
        """Whoever sees the packets can forge one that TCP takes for the next one of its connection."""
        state = {"begins": False, "flow": None}

        def forge(line, segment):
            if not state["begins"] or segment.ip[12:16] != socket.inet_aton(MACHINE_0):
                return
            state["flow"] = state["flow"] or segment.flow
            if segment.flow == state["flow"]:
                line.send(segment.followed_by(b"\x17\x03\x03\x00\x60" + b"f" * 0x60))
        self.record(cut_in=forge)
        runs = self.start_pair(RESTARTED)
        until(lambda: last_step(self.folder / "output") >= 7)
        state["begins"] = True
        until(lambda: TAMPERED in runs[0].err + runs[1].err + self.logs())
        until(lambda: "restart 1 of 3" in runs[0].err)
        self.finish(runs, 0)
        self.expect(RESTARTED)


class Chosen(Transport):
    def test_a_transport_that_needs_a_secret(self):
        none = ("env", "TRAINER_SECRET_FILE=none")
        config = self.job("output", SHORT, DATA_PARALLEL, {"training": {"gloo_transport": "tls"}})
        runs = self.start_both(config, MACHINE_0, PORT, self.before, secrets=(none, none))
        self.finish(runs, 2)
        for run in runs:
            self.assertIn("training.gloo_transport is tls, but the machines of this run have no secret", run.err)
            self.assertIn("trainer launch --new_secret trainer-secret", run.err)

    def test_different_transports(self):
        configs = [self.job(f"job-{transport}", SHORT, SHARDED, {"output_dir": str(self.folder / "output"),
                                                                 "training": {"gloo_transport": transport}})
                   for transport in ("tls", "tcp")]
        runs = [self.start_both(config, MACHINE_0, PORT, self.before, only=number)[0]
                for number, config in enumerate(configs)]
        self.finish(runs, 2)
        for run in runs:
            self.assertRegex(run.err, r"training\.gloo_transport: tls \(.*\) on machine 0, tcp \(.*\) on machine 1")


class OneMachine(EndToEnd):
    """Ranks that don't share memory use Gloo on the loopback address, where any user may connect."""

    def test_a_local_stranger_is_refused(self):
        run = self.start(self.job("output", SHORT, DATA_PARALLEL), before=("env", "TRAINER_SHARE_MEMORY=0"))
        held = until(lambda: run.ranks().get(3))
        os.kill(held, signal.SIGSTOP)
        for port in settled(lambda: listening_ports(pid for rank, pid in run.ranks().items() if rank < 3), 3):
            for number in range(NUMBERS):
                line = socket.create_connection(("127.0.0.1", port), timeout=10)
                self.addCleanup(line.close)
                line.sendall(number.to_bytes(8, "little"))
        os.kill(held, signal.SIGCONT)
        self.assertEqual(run.wait().code, 0, run.err)
        logs = "".join(path.read_text() for path in (self.folder / "output/logs").glob("rank-*.log"))
        self.assertEqual(len(re.findall(REFUSED + r"127\.0\.0\.1:", logs)), 3 * NUMBERS, logs)
        self.launch(self.job("expected", SHORT, DATA_PARALLEL))
        self.assert_same_run(self.folder / "output", self.folder / "expected")


if __name__ == "__main__":
    unittest.main()
