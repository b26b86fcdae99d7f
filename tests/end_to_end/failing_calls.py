"""Makes one system call of a run fail (tests/support/failing_calls.cpp) and judges what the run makes of it.

A run must end with an exit code of the contract and a message, or go on with the right result. It never hangs, dies of a
signal, calls the fault a bug of ours, leaves processes behind or half-written files visible, or says 0 with a file that
is missing or wrong, and no process that goes on keeps a descriptor open that it otherwise closes; and launching it again without the fault gives the result of an undisturbed run.
"""

import dataclasses
import errno
import json
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import time
import uuid

from support import JOB, MARK, TINY_T5, TRAINER, merged, processes

LIBRARY = os.environ.get("FAILING_CALLS_LIBRARY", "")
SOURCE = pathlib.Path(__file__).resolve().parents[1] / "support/failing_calls.cpp"
PROCESSES = ("trainer", "trainer-prepare", "rank-0", "rank-1", "trainer-1", "trainer-prepare-1")
SLOTS = 64
COUNTS = struct.Struct(f"<{(SLOTS + 1) * len(PROCESSES) + 1}Q512s256s")  # as in failing_calls.cpp
HUNG = 60  # seconds
JOIN = 15  # a machine whose peer has failed gives up after as many seconds
CONTRACT = {0, 2, 3, 4, 5, 6, 7, 130, 143}  # 1 is a bug of ours
PURPOSES = {"tfevents": "TensorBoard", "README.md": "model card", "outcome.json": "outcome", "logs/": "log"}
WRONG_WORDS = ("internal error", "preparing the data ended with", "please report", "terminate called", "core dumped",
               "Assertion", "LOG ERROR")

NO_ROOM, NO_FILES, NO_MEMORY, BROKEN = errno.ENOSPC, errno.EMFILE, errno.ENOMEM, errno.EIO
INTERRUPTED, AGAIN, NO_TABLE = errno.EINTR, errno.EAGAIN, errno.ENFILE
ERRORS = {
    "open": (NO_FILES, NO_TABLE, NO_ROOM, BROKEN), "fopen": (NO_FILES,), "read": (BROKEN, INTERRUPTED),
    "pread": (BROKEN,), "write": (NO_ROOM, BROKEN, INTERRUPTED, AGAIN), "writev": (NO_ROOM, BROKEN),
    "pwrite": (NO_ROOM, BROKEN), "close": (BROKEN, NO_ROOM), "fsync": (BROKEN, NO_ROOM), "fallocate": (NO_ROOM,),
    "ftruncate": (NO_ROOM, BROKEN), "rename": (BROKEN, NO_ROOM), "renameat2": (BROKEN,), "unlink": (BROKEN,),
    "mkdir": (NO_ROOM, BROKEN), "rmdir": (BROKEN,), "symlink": (NO_ROOM, BROKEN), "flock": (INTERRUPTED, errno.ENOLCK),
    "fork": (AGAIN, NO_MEMORY), "execve": (NO_MEMORY, BROKEN), "waitpid": (INTERRUPTED,), "waitid": (INTERRUPTED,),
    "timerfd_create": (NO_FILES,), "pipe": (NO_FILES, NO_TABLE), "dup2": (NO_FILES, INTERRUPTED),
    "socket": (NO_FILES, NO_TABLE, NO_MEMORY), "socketpair": (NO_FILES, NO_MEMORY), "bind": (NO_MEMORY,),
    "listen": (NO_MEMORY,), "accept": (NO_FILES, INTERRUPTED, AGAIN, NO_MEMORY), "connect": (INTERRUPTED, NO_MEMORY),
    "send": (NO_MEMORY, INTERRUPTED), "sendmsg": (NO_MEMORY, INTERRUPTED, AGAIN), "recv": (NO_MEMORY, INTERRUPTED),
    "recvmsg": (NO_MEMORY, INTERRUPTED, AGAIN), "poll": (INTERRUPTED, NO_MEMORY), "epoll_create1": (NO_FILES, NO_MEMORY),
    "epoll_ctl": (NO_MEMORY,), "epoll_wait": (INTERRUPTED,), "eventfd": (NO_FILES, NO_MEMORY),
    "signalfd": (NO_FILES, NO_MEMORY), "memfd_create": (NO_FILES, NO_MEMORY), "mmap": (NO_MEMORY,),
    "pthread_create": (AGAIN,), "fstat": (BROKEN,), "stat": (BROKEN,), "lstat": (BROKEN,), "access": (BROKEN,),
    "opendir": (NO_FILES, NO_MEMORY, BROKEN), "readdir": (BROKEN,), "readlink": (BROKEN,), "realpath": (BROKEN,),
    "getcwd": (errno.ENOENT,), "statvfs": (BROKEN,), "link": (NO_ROOM, BROKEN), "unlinkat": (BROKEN,), "fchmod": (BROKEN,),
    "mkostemp": (NO_ROOM, NO_FILES), "sendfile": (BROKEN,), "setsockopt": (NO_MEMORY,), "getsockname": (NO_MEMORY,),
    "getifaddrs": (NO_MEMORY, NO_FILES)}


def function_names():
    table = SOURCE.read_text().split("#define EACH_FUNCTION(F)", 1)[1].split("enum Function", 1)[0]
    return re.findall(r"F\((\w+)\)", table)


@dataclasses.dataclass(frozen=True)
class Fault:
    process: str
    function: str
    call: int
    error: int

    def __str__(self):
        return f"{self.process} {self.function} #{self.call} {errno.errorcode[self.error]}"


@dataclasses.dataclass
class Outcome:
    code: int
    text: str
    struck: bool
    problems: list
    descriptors: dict  # that each process held when it exited
    subject: str  # path or descriptor's file of the call that failed
    caller: str  # the library or program that called

    @property
    def kind(self):
        if is_about_cpu(self):
            return "libtorch's own"
        if self.problems:
            return "wrong"
        return "not reached" if not self.struck else "goes on" if self.code == 0 else f"exit {self.code}"


def is_about_cpu(outcome):
    """libtorch reads about the processor when it first computes. If a file is there, but can't be read, it dies, or
    computes with other kernels, whose results are rounded otherwise; without the files, it does neither."""
    return outcome.caller == "libc10.so" and outcome.subject.startswith(("/sys/devices/system/cpu/", "/proc/cpuinfo"))


class Runs:
    """Short runs of one job in `folder`."""

    def __init__(self, folder, tokenizer, ranks, machines=1, resumed=False):
        """`machines`: 1, or 2 launchers with a rank each that meet on 127.0.0.1. `resumed`: each continues from a
        checkpoint of its first update."""
        self.folder, self.tokenizer, self.ranks, self.machines = folder, tokenizer, max(ranks, machines), machines
        self.number, self.begun, self.before = 0, None, {}
        if resumed:
            begun = self.folder / "begun"
            outcome, _ = self._launch(begun, self.folder / "begun-cache", steps=1)
            assert outcome.code == 0, outcome
            self.begun, self.before = begun, self._results(begun)
        self.expected, self.counts, self.descriptors = None, None, {}
        self._calibrate()

    def _job(self, output, steps=2):
        job = merged(JOB, {
            "model": {"config": TINY_T5}, "tokenizer": {"path": str(self.tokenizer)}, "output_dir": str(output),
            "num_processes": self.ranks, "distributed_type": "FSDP" if self.ranks > 1 else "NO",
            "training": {"max_steps": steps}, "checkpoint": {"save_steps": 1},
            "evaluation": {"eval_steps": 0, "generate": True, "max_new_tokens": 2}, "data": {"max_samples": 24},
            "logging": {"report_to": ["tensorboard"]}})
        path = output.with_suffix(".yaml")
        path.write_text(json.dumps(job, indent=1))
        return path

    def _launch(self, output, cache, fault=None, steps=2):
        mark = uuid.uuid4().hex
        if self.begun and not output.exists():
            shutil.copytree(self.begun, output, symlinks=True)
        counters = output.with_suffix(".counts")
        counters.write_bytes(bytes(4096))
        environment = {**os.environ, MARK: mark, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1",
                       "TRAINER_SECRET": "open-sesame"}
        if LIBRARY:
            environment |= {"LD_PRELOAD": LIBRARY, "FAILING_CALLS": str(counters)}
        if fault:
            environment["FAILING_CALLS_FAULT"] = f"{fault.process} {fault.function} {fault.call} {fault.error}"
        problems, codes = [], []
        with open(output.with_suffix(".screen"), "a+") as screen:
            command = [TRAINER, "launch", "--config_file", self._job(output, steps), *self._meeting()]
            runs = [subprocess.Popen([*command, *(["--node_rank", str(machine)] if self.machines > 1 else [])],
                                     env={**environment, "FAILING_CALLS_MACHINE": str(machine)},
                                     stdin=subprocess.DEVNULL, stdout=screen, stderr=screen)
                    for machine in range(self.machines)]
            deadline = time.monotonic() + HUNG
            for run in runs:
                try:
                    run.wait(max(0.1, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    problems.append(f"hung for {HUNG} s")
                    run.kill()
                    run.wait()
                codes.append(run.returncode)
            screen.seek(0)
            text = screen.read()
        problems += self._left_over(mark)
        problems += [f"exit code {code}" for code in codes if code not in CONTRACT]
        *values, subject, caller = COUNTS.unpack_from(counters.read_bytes())
        subject, caller = (text.rstrip(b"\0").decode("utf8", "replace") for text in (subject, caller))
        code = next((code for code in codes if code != 0), 0)
        return Outcome(code, text, values[-1] != 0, problems, dict(zip(PROCESSES, values[SLOTS * len(PROCESSES):])),
                       subject, os.path.basename(caller)), values

    def _meeting(self):
        if self.machines == 1:
            return []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return ["--nnodes", str(self.machines), "--master_addr", "127.0.0.1", "--master_port", str(port),
                "--nproc_per_node", "1", "--join_timeout", str(JOIN)]

    @staticmethod
    def _left_over(mark):
        deadline = time.monotonic() + 5
        while (left := processes(mark)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        return [f"left {len(left)} processes behind"] if left else []

    def _calibrate(self):
        for _ in range(3):  # the number of descriptors at the end differs a little
            output, cache = self._place()
            outcome, values = self._launch(output, cache)
            assert outcome.code == 0 and not outcome.problems, outcome
            self.expected = self._results(output)
            self.descriptors = {name: max(count, self.descriptors.get(name, 0))
                                for name, count in outcome.descriptors.items()}
            self._forget(output, cache)
        names = function_names()
        self.counts = {(process, name): values[i * SLOTS + j] for i, process in enumerate(PROCESSES)
                       for j, name in enumerate(names) if values[i * SLOTS + j]}

    def _place(self):
        self.number += 1
        return self.folder / f"run-{self.ranks}-{self.number}", self.folder / f"cache-{self.ranks}-{self.number}"

    def _forget(self, output, cache):
        for path in (output, cache):
            shutil.rmtree(path, ignore_errors=True)
        for suffix in (".yaml", ".counts", ".screen"):
            output.with_suffix(suffix).unlink(missing_ok=True)

    @staticmethod
    def _results(output):
        """The content of each file that must not depend on time; None for others, which must exist."""
        results = {}
        for path in sorted(output.rglob("*")):
            name = str(path.relative_to(output))
            if not path.is_file() or path.is_symlink() or name == ".lock":
                continue
            same = path.suffix in (".safetensors", ".model") or path.name in ("config.json", "predictions.jsonl",
                                                                              "tokenizer.json", "tokenizer_config.json")
            results[re.sub(r"tfevents.*", "tfevents", name)] = path.read_bytes() if same else None
        return results

    def fail(self, fault):
        """Runs with the fault, and if that ended the run, once more without."""
        output, cache = self._place()
        outcome, _ = self._launch(output, cache, fault)
        problems = outcome.problems
        if is_about_cpu(outcome):
            problems.clear()
            self._forget(output, cache)
            return outcome
        problems += [f"says '{word}'" for word in WRONG_WORDS if word in outcome.text]
        if outcome.code != 0 and not outcome.text.strip():
            problems.append("says nothing")
        problems += self._wrong_files(output, outcome)
        if outcome.code == 0:
            problems += [f"{process} ends with {count} descriptors instead of {self.descriptors[process]}"
                         for process, count in outcome.descriptors.items() if count > self.descriptors[process]]
        says_so = "resuming from" in outcome.text or outcome.subject.endswith(".screen")  # this line may be the call
        if self.begun and outcome.code == 0 and not says_so:
            problems.append("starts from scratch instead of resuming")
        if outcome.code != 0 and not problems:
            again, _ = self._launch(output, cache)
            if again.code != 0:
                problems.append(f"launched again: exit code {again.code}: {again.text[-400:]}")
            else:
                problems += [f"launched again: {text}" for text in self._wrong_files(output, again)]
        self._forget(output, cache)
        return outcome

    def _wrong_files(self, output, outcome):
        """Half-written files; after a good end, also missing and wrong ones that no warning explains."""
        found = self._results(output)
        wrong = []
        for name, content in found.items():
            path = output / name
            if name.startswith(".") or "/." in name:
                if outcome.code == 0:
                    wrong.append(f"{name} is left behind")
                continue
            if name.startswith("checkpoint-") or path.suffix in (".safetensors", ".model"):
                if content is not None and content not in (self.expected.get(name), self.before.get(name)):
                    wrong.append(f"{name} differs")
            if path.suffix == ".json" and path.exists():
                try:
                    json.loads(path.read_text())
                except ValueError:
                    wrong.append(f"{name} is half-written")
        for folder in output.glob("checkpoint-*"):
            there = {path.name for path in folder.iterdir()}
            missing = {pathlib.Path(name).name for name in self.expected if name.startswith(folder.name + "/")} - there
            if missing:
                wrong.append(f"{folder.name} lacks {sorted(missing)}")
        if outcome.code != 0:
            return wrong
        for name, content in self.expected.items():
            if name not in found:
                if not explained(name, outcome.text):
                    wrong.append(f"{name} is missing")
            elif content is not None and found[name] != content:
                wrong.append(f"{name} differs")
        return wrong


def explained(name, text):
    """Whether a warning says that the file is missing: by its name, that of its folder, or what it is for."""
    subjects = {name, pathlib.Path(name).name, name.split("/")[0], *(
        purpose for part, purpose in PURPOSES.items() if part in name)}
    return any(subject in line for line in text.splitlines() if "warning" in line or "trainer: no " in line
               for subject in subjects)


def faults(counts, points):
    """At most `points` calls of each function in each process, spread evenly, the first and the last among them; each
    with the next of the function's errors."""
    for (process, function), count in sorted(counts.items()):
        calls = sorted({1 + round(i * (count - 1) / max(1, points - 1)) for i in range(points)}) if points else range(1, count + 1)
        errors = ERRORS[function]
        for i, call in enumerate(calls):
            if points:
                yield Fault(process, function, call, errors[i % len(errors)])
            else:
                for error in errors:
                    yield Fault(process, function, call, error)


def table(outcomes):
    """Lines of function x process x calls failed x outcomes."""
    rows = {}
    for fault, outcome in outcomes:
        row = rows.setdefault((fault.function, fault.process), {})
        row[outcome.kind] = row.get(outcome.kind, 0) + 1
    for (function, process), row in sorted(rows.items()):
        kinds = ", ".join(f"{kind}: {count}" for kind, count in sorted(row.items()))
        yield f"| {function} | {process} | {sum(row.values())} | {kinds} |"
