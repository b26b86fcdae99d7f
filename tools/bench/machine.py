"""What the machine is, and whether something else uses it while programs are compared.

A virtual machine's core is often half of a real one, and runs at half its speed while somebody else uses the other half.
That doesn't matter as long as it lasts for a whole round. So a round counts if the machine was the same throughout it.
"""

import contextlib
import dataclasses
import hashlib
import os
import pathlib
import platform
import statistics
import threading
import time

TOLERANCE = 0.15  # by which the slowest calibration work of a round may take longer than its fastest
TAKEN = 0.03      # of the time of all cores, in a round: at most this may be taken by the host or by other programs
ROUNDS = 25_000   # of a keyed hash: some 15 ms
TIMES = 3
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


TICK = os.sysconf("SC_CLK_TCK")


def busy() -> float:
    """Seconds that the machine's cores have worked, or were taken by the host, so far."""
    user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / TICK


def worked(pids: list[int]) -> float:
    """Seconds that these processes have worked so far, with their children that have ended."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:15]))
    return total / TICK


def work_on(core: int) -> None:
    os.sched_setaffinity(0, {core})  # of this thread
    hashlib.pbkdf2_hmac("sha256", b"calibration", b"work", ROUNDS)
    bytes(COPIED)


def once() -> float:
    """Seconds of the same work on every core at once. Both parts of it run without the interpreter's lock."""
    threads = [threading.Thread(target=work_on, args=(core,)) for core in os.sched_getaffinity(0)]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.monotonic() - start


def calibration() -> float:
    once()  # memory that a program has given back to the host of a virtual machine is slow at first
    return statistics.median(once() for _ in range(TIMES))


@dataclasses.dataclass
class Look:
    """At the machine, at one moment."""
    work: float    # seconds of the calibration work
    busy: float    # busy(), without what the compared programs and this one have worked
    when: float


def look(pids: list[int]) -> Look:
    """`pids`: the processes of the compared programs."""
    work = calibration()
    return Look(work, busy() - worked([*pids, os.getpid()]), time.monotonic())


def was_quiet(looks: list[Look]) -> bool:
    """Whether the machine was the same, and had nothing else to do, from the first to the last of these looks."""
    work = [one.work for one in looks]
    cores = len(os.sched_getaffinity(0))
    taken = (looks[-1].busy - looks[0].busy) / (cores * max(looks[-1].when - looks[0].when, 1e-9))
    return max(work) <= min(work) * (1 + TOLERANCE) and taken <= TAKEN
