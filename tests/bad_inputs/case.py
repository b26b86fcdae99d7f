"""One bad input: how it is made, how the program is called, and how it must respond."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from typing import Callable, Optional

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "end_to_end"))
from support import JOB, PATIENCE, SAMPLES, TINY_T5, TRAINER, merged  # noqa: E402  (in a sibling folder, not installed)

DONE, CONFIGURATION, INPUT, MACHINE, NUMERIC, PEER = 0, 2, 3, 4, 5, 6
MOST_LINES = 6
FOREIGN = ("ACCELERATE_", "FSDP_", "TRAINER_", "MEGATRON_", "PARALLELISM_", "SLURM_", "OMPI_")


@dataclasses.dataclass(frozen=True)
class Case:
    """A variant of a line of the catalog. `make(place)` makes the files and returns the arguments of `trainer`."""

    line: int
    what: str
    make: Callable
    code: int = CONFIGURATION
    says: tuple = ()  # texts that the message must contain, in any order
    silent: tuple = ()  # texts that must not be printed or written anywhere
    environment: Optional[dict] = None
    stdin: Optional[bytes] = None
    before: tuple = ()  # a program that starts trainer, with its own arguments
    most_lines: int = MOST_LINES
    may_write: tuple = ()  # names of files that a refusal may leave or change
    tells_on_output: bool = False  # the message is on standard output, as for `checkpoint verify`
    check: Optional[Callable] = None  # check(place, outcome) returns what is wrong, or ""
    needs: Optional[Callable] = None  # needs() is false when the case can't be made on this machine
    although: str = ""  # why trainer accepts it although the catalog would refuse it

    @property
    def name(self):
        return f"{self.line}: {self.what}"


@dataclasses.dataclass(frozen=True)
class NotHere:
    """A line that can't happen to this program."""

    line: int
    reason: str


@dataclasses.dataclass(frozen=True)
class Elsewhere:
    """A line that needs more than one program and has a separate test."""

    line: int
    test: str


@dataclasses.dataclass
class Outcome:
    code: int
    out: str
    err: str
    seconds: float
    kibibytes: int  # the largest process
    hung: bool = False


class Place:
    """The folder of a case, next to the files that all cases share."""

    def __init__(self, shared, folder):
        self.shared = shared
        self.folder = folder

    @property
    def tokenizer(self):
        return self.shared / "tokenizer"

    def write(self, name, content):
        """`content`: text, bytes, or an iterable of bytes when all of them at once would need too much memory."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            content = content.encode()
        with open(path, "wb") as file:
            for part in [content] if isinstance(content, bytes) else content:
                file.write(part)
        return path

    def job(self, *changes):
        """Writes the tiny job of the end-to-end tests with changes to a file."""
        job = merged(JOB, {"model": {"config": TINY_T5}, "tokenizer": {"path": str(self.tokenizer)},
                           "output_dir": str(self.folder / "output"), "training": {"max_steps": 2}})
        for change in changes:
            job = merged(job, change)
        return self.write("job.yaml", json.dumps(job, indent=1))

    def base_model(self):
        """A copy of a good model folder."""
        folder = self.folder / "model"
        shutil.copytree(self.shared / "model", folder)
        return folder

    def run_folder(self):
        """A copy of the output folder of a run that saved a checkpoint, and its job."""
        folder = self.folder / "output"
        shutil.copytree(self.shared / "run", folder, symlinks=True)
        return folder


class Shared:
    """Made once for all cases: a tokenizer and, on request, a model folder and a run's folder."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-bad-inputs-"))
        self.folder.chmod(0o755)
        for name in ("cache", "home"):
            (self.folder / name).mkdir()
            (self.folder / name).chmod(0o777)
        self._count = 0
        self._lock = threading.Lock()
        self.trainer("tokenize", "train", "--input", SAMPLES, "--format", "delimited", "--output",
                     self.folder / "tokenizer", "--vocab_size", "280")

    def trainer(self, *words):
        subprocess.run([TRAINER, *map(str, words)], env=self.environment(), check=True, capture_output=True)

    def make_model_and_run(self):
        """Makes a run of two updates with a checkpoint, and a model folder from its result."""
        place = Place(self.folder, self.folder)
        job = place.job({"output_dir": str(self.folder / "run"), "data": {"validation": None}, "evaluation": None,
                         "checkpoint": {"save_steps": 2}})
        self.trainer("launch", "--config_file", job)
        model = self.folder / "model"
        model.mkdir()
        for name in ("config.json", "model.safetensors"):
            shutil.copy(self.folder / "run" / name, model)
        for path in self.tokenizer_files():
            shutil.copy(path, model)

    def tokenizer_files(self):
        return sorted((self.folder / "tokenizer").iterdir())

    def environment(self):
        clean = {key: value for key, value in os.environ.items() if not key.startswith(FOREIGN)}
        return {**clean, "XDG_CACHE_HOME": str(self.folder / "cache"), "HOME": str(self.folder / "home"),
                "HF_HUB_CACHE": str(self.folder / "hub"), "LC_ALL": "C.UTF-8"}

    def place(self):
        with self._lock:
            self._count += 1
            folder = self.folder / f"case-{self._count}"
        folder.mkdir()
        folder.chmod(0o755)
        return Place(self.folder, folder)

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def state_of(folder):
    """The mode, size and time of every file below `folder`, except the .lock, which names the last owner."""
    state = {}
    for path in sorted(folder.rglob("*")):
        if path.name == ".lock":
            continue
        about = path.lstat()
        state[str(path.relative_to(folder))] = (about.st_mode, about.st_size, about.st_mtime_ns)
    return {name: value if not pathlib.Path(folder, name).is_dir() else value[0] for name, value in state.items()}


def run(case, place, shared):
    """Makes the case's files and runs the program on them."""
    words = [word if isinstance(word, bytes) else str(word) for word in case.make(place)]
    before = state_of(place.folder)
    environment = {**shared.environment(), **(case.environment or {})}
    started = time.monotonic()
    process = subprocess.Popen([*case.before, TRAINER, *words], cwd=place.folder, env=environment,
                               stdin=subprocess.PIPE if case.stdin is not None else subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    texts = {}
    readers = [threading.Thread(target=lambda name, pipe: texts.update({name: pipe.read()}), args=each)
               for each in (("out", process.stdout), ("err", process.stderr))]
    for reader in readers:
        reader.start()
    if case.stdin is not None:
        try:
            process.stdin.write(case.stdin)
            process.stdin.close()
        except BrokenPipeError:
            pass  # the program ended before it had read everything
    hung = threading.Event()
    timer = threading.Timer(PATIENCE, lambda: (hung.set(), process.kill()))
    timer.start()
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    process.returncode = os.waitstatus_to_exitcode(status)
    for reader in readers:
        reader.join()
    process.stdout.close()
    process.stderr.close()
    outcome = Outcome(process.returncode, texts["out"].decode("utf-8", "backslashreplace"),
                      texts["err"].decode("utf-8", "backslashreplace"), time.monotonic() - started, usage.ru_maxrss,
                      hung.is_set())
    return outcome, before


def faults(case, place, outcome, before):
    """What is wrong with the program's response; empty when nothing is."""
    wrong = []
    if outcome.hung:
        wrong.append("it hangs")
    if outcome.code != case.code:
        wrong.append(f"exit code {outcome.code} instead of {case.code}")
    message = outcome.err + (outcome.out if case.code == DONE or case.tells_on_output else "")
    wrong += [f"doesn't say {text!r}" for text in map(str, case.says) if text not in message]
    wrong += [f"says {text!r}" for text in case.silent if text in outcome.err + outcome.out]
    if case.code != DONE:
        wrong += refusal_faults(case, outcome, before, state_of(place.folder))
    if case.silent:
        wrong += [f"{path} holds {text!r}" for path in place.folder.rglob("*") if path.is_file() and path.suffix == ".log"
                  for text in case.silent if text.encode() in path.read_bytes()]
    if case.check is not None and not wrong:
        wrong += [text for text in [case.check(place, outcome)] if text]
    return wrong


def refusal_faults(case, outcome, before, after):
    lines = (outcome.err + (outcome.out if case.tells_on_output else "")).splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith("trainer:")), 0)
    lines = lines[first:]  # a run's start panel may stand before it
    if len(lines) > case.most_lines:
        yield f"{len(lines)} lines of message"
    if not lines:
        yield "no message"
    if "report" in outcome.err and ("bug" in outcome.err or "internal error" in outcome.err):
        yield "an internal error"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", outcome.err):
        yield "control characters in the message"
    if max(map(len, lines), default=0) > 2000:
        yield "a line of more than 2000 characters"
    changed = [name for name in sorted(before.keys() | after.keys()) if before.get(name) != after.get(name)
               and not any(name.startswith(allowed) for allowed in case.may_write)]
    if changed:
        yield f"{len(changed)} files were written or removed: {', '.join(changed[:4])}"


def expand(cases):
    """Flattens a table of cases, in which groups are lists."""
    for case in cases:
        if isinstance(case, (list, tuple)):
            yield from expand(case)
        else:
            yield case


def runnable(cases):
    """The cases of a table that can be made on this machine."""
    return [case for case in expand(cases) if isinstance(case, Case) and (case.needs is None or case.needs())]


def as_nobody():
    """The command that starts a program as an unprivileged user."""
    return ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


def can_be_nobody():
    return os.geteuid() == 0 and shutil.which("setpriv") is not None and subprocess.run(
        [*as_nobody(), TRAINER, "--version"], capture_output=True, check=False).returncode == 0


