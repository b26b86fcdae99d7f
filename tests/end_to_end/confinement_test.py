"""The process that parses strangers' files has given up what it doesn't need, in the real program."""

import pathlib
import signal
import unittest

from support import SAMPLES, EndToEnd, processes, until

COPIES = 20_000  # of the samples: tokenizing them takes seconds


def named(mark, name):
    """The process of this mark that runs the program `name`, or None."""
    for pid in processes(mark):
        try:
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == name:
                return pid
        except OSError:
            pass  # ended meanwhile
    return None


def fields(pid):
    """/proc/PID/status, and the limits, as long as the process lives; {} when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        limits = pathlib.Path(f"/proc/{pid}/limits").read_text()
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
    except OSError:
        return {}
    found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    found["core"] = next(line for line in limits.splitlines() if line.startswith("Max core file size")).split()[4:6]
    found["sanitized"] = "libasan" in maps or "libtsan" in maps
    return found


class Confinement(EndToEnd):
    def test_of_trainer_prepare(self):
        data = self.write("many.txt", SAMPLES.read_text() * COPIES)
        run = self.start(self.job("output", {"data": {"train": {"path": str(data)}, "max_samples": None}}))
        pid = until(lambda: named(self.mark, "trainer-prepare") or (run.ended() and -1))
        self.assertNotEqual(pid, -1, run.err)
        seen = {}

        def is_confined():
            now = fields(pid)
            seen.update(now)
            return not now or now["sanitized"] or now.get("Seccomp") == "2"

        until(is_confined)
        run.kill_with(signal.SIGTERM)
        run.wait()
        if seen["sanitized"]:
            self.skipTest("a sanitizer's runtime needs the system calls that a confined process has not")
        self.assertEqual((seen["Seccomp"], seen["NoNewPrivs"], seen["core"]), ("2", "1", ["0", "0"]))


if __name__ == "__main__":
    unittest.main()
