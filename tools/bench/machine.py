"""What the machine is, and whether something else is using it."""

import dataclasses
import hashlib
import os
import pathlib
import platform
import threading
import time

TOLERANCE = 0.10  # calibration work that takes longer than its best by more than this: the machine isn't quiet
STOLEN = 0.02     # of the time of all cores; more than this, taken by the host: the same
ROUNDS = 25_000   # of a keyed hash: some 15 ms
COPIED = bytearray(8 << 20)


def describe() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()

    def field(name: str) -> str:
        found = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith(name)]
        return found[0] if found else "?"

    flags = field("flags").split()
    special = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile") if flag in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{field('model name')} (family {field('cpu family')}, model {field('model')}), "
            f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {' '.join(special)}, "
            f"{platform.system()} {platform.release()}")


def stolen() -> float:
    """Seconds that the host has taken from this machine's cores so far."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def work_on(core: int) -> None:
    os.sched_setaffinity(0, {core})  # of this thread
    hashlib.pbkdf2_hmac("sha256", b"calibration", b"work", ROUNDS)
    bytes(COPIED)


def calibration() -> float:
    """Seconds of the same work on every core at once. Both parts of it run without the interpreter's lock."""
    threads = [threading.Thread(target=work_on, args=(core,)) for core in os.sched_getaffinity(0)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


@dataclasses.dataclass
class Look:
    """At the machine, at one moment."""
    work: float  # seconds of the calibration work
    stolen: float
    when: float


class Quiet:
    """Whether the machine was quiet between two looks."""

    def __init__(self):
        self.best = min(calibration() for _ in range(20))

    def look(self) -> Look:
        work = calibration()
        self.best = min(self.best, work)
        return Look(work, stolen(), time.monotonic())

    def was_quiet(self, before: Look, after: Look) -> bool:
        cores = len(os.sched_getaffinity(0))
        taken = (after.stolen - before.stolen) / (cores * max(after.when - before.when, 1e-9))
        return max(before.work, after.work) <= self.best * (1 + TOLERANCE) and taken <= STOLEN
