"""Runs a program with all its ranks: starts it, reads what it records, stops and continues it, measures its memory."""

import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

POLL_SECONDS = 0.002


def process_group(leader: int) -> list[int]:
    """The leader and all its descendants, parents first."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text()
            except OSError:
                continue  # it has ended
            parents[int(entry)] = int(stat.rpartition(")")[2].split()[1])
    found = [leader]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process]
    return found


def memory_in(file: str, name: str) -> int:
    """Bytes in the line `name` of a file of /proc; 0 if the process has ended."""
    try:
        lines = pathlib.Path(file).read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name + ":")), 0)


def peak_memory(process: int) -> int:
    return memory_in(f"/proc/{process}/status", "VmHWM")


def without_files(process: int) -> int:
    """Without pages of files, which the system can drop and read again. A page shared by several is split between them."""
    return sum(memory_in(f"/proc/{process}/smaps_rollup", name) for name in ("Pss_Anon", "Pss_Shmem"))


def of_files(process: int) -> int:
    return memory_in(f"/proc/{process}/status", "RssFile")


@dataclasses.dataclass
class Memory:
    """Peaks in bytes."""
    largest: int = 0   # of a process
    every: int = 0     # sum over the processes; shared pages count in each
    together: int = 0  # of all processes at a time; shared pages count once
    without_files: int = 0  # of all processes at a time, without pages of files


class Program:
    """A running `command`, which writes `folder`/out/metrics.jsonl. Ended with its ranks at the end of `with`."""

    def __init__(self, name: str, command: list[str], folder: pathlib.Path, limit: float):
        self.name, self.command, self.folder = name, command, folder
        self.metrics = folder / "out" / "metrics.jsonl"
        self.ends_at = time.monotonic() + limit
        self.peaks: dict[int, int] = {}
        self.together = self.without_files = 0
        self.start = time.monotonic()
        with open(folder / "screen.txt", "wb") as sink:
            # The peer must not wait for a network.
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
                                            start_new_session=True, env={**os.environ, "HF_HUB_OFFLINE": "1"})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """torchrun puts its ranks into separate sessions."""
        if self.process.poll() is None:
            for member in process_group(self.process.pid):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            self.process.wait()

    def seconds(self) -> float:
        return time.monotonic() - self.start

    def records(self) -> list[dict]:
        """Those of updates, from complete lines."""
        if not self.metrics.exists():
            return []
        lines = self.metrics.read_text().rpartition("\n")[0].splitlines()
        return [record for record in map(json.loads, lines) if "step_seconds" in record]

    def wait_for_update(self, count: int, look_every: float = 0) -> None:
        """Until `count` updates are recorded. Looks at the memory every `look_every` seconds, if that isn't 0."""
        looked, size, recorded = 0.0, -1, 0
        while True:
            now = self.metrics.stat().st_size if self.metrics.exists() else 0
            if now != size:  # reading it takes time from the program that is measured
                size, recorded = now, len(self.records())
            if recorded >= count:
                return
            if self.process.poll() is not None:
                self.fail(f"ended with {self.process.returncode} after {recorded} updates")
            if time.monotonic() > self.ends_at:
                self.fail("took too long")
            if look_every and time.monotonic() - looked > look_every:
                self.look_at_memory()
                looked = time.monotonic()
            time.sleep(POLL_SECONDS)

    def pause(self) -> None:
        for member in process_group(self.process.pid):
            os.kill(member, signal.SIGSTOP)

    def go_on(self) -> None:
        """Parents last: a launcher that looks at its ranks sees them running."""
        for member in reversed(process_group(self.process.pid)):
            os.kill(member, signal.SIGCONT)

    def look_at_memory(self) -> None:
        members = process_group(self.process.pid)
        for member in members:
            self.peaks[member] = max(self.peaks.get(member, 0), peak_memory(member))
        # The processes of a program map the same files, as the other programs of a comparison do.
        own = sum(map(without_files, members))
        self.together = max(self.together, own + max(map(of_files, members)))
        self.without_files = max(self.without_files, own)

    def memory(self) -> Memory:
        return Memory(max(self.peaks.values()), sum(self.peaks.values()), self.together, self.without_files)

    def fail(self, why: str) -> None:
        screen = (self.folder / "screen.txt").read_text(errors="replace").splitlines()[-15:]
        sys.exit(f"{self.name} {why}: {shlex.join(self.command)}\n" + "\n".join(screen))
