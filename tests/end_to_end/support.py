"""Shared by the end-to-end tests: a tiny job, the program `trainer` as a process, and the files that a run leaves."""

import copy
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import uuid

TRAINER = os.environ.get("TRAINER_BIN", "") and os.path.abspath(os.environ["TRAINER_BIN"])
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
SAMPLES = REPOSITORY / "data/examples/reports.txt"
# Seconds until a wait counts as hung; not used for measurements. Programs with sanitizers are several times slower.
PATIENCE = 60 * int(os.environ.get("TRAINER_TEST_PATIENCE", "1"))
MARK = "TRAINER_END_TO_END"  # identifies the test in the environment of each process that it starts

TINY_T5 = {"model_type": "t5", "vocab_size": 400, "d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 2,
           "dropout_rate": 0.1}

# 50 training samples, not a multiple of 8; 12 validation samples.
JOB = {
    "distributed_type": "NO",
    "use_cpu": True,
    "seed": 7,
    "data": {"train": {"path": str(SAMPLES), "format": "delimited", "columns": ["sentence", "label"]},
             "validation": {"fraction": 0.2}, "source": "sentence", "target": "label",
             "max_source_length": 64, "max_target_length": 6, "max_samples": 62},
    "training": {"per_device_train_batch_size": 4, "max_steps": 12, "learning_rate": 0.01},
    "checkpoint": {"save_steps": 3},
    "evaluation": {"eval_steps": 4},
    "logging": {"logging_steps": 1},
}

# The keys of a metrics.jsonl line about the training; the others are about the machine.
RESULTS = ("step", "epoch", "loss", "grad_norm", "learning_rate", "tokens", "order_digest", "loss_scale",
           "skipped_updates")


# Where `tools/setup.sh --peers` installs what some tests compare with.
PEERS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "trainer" / "peers" / "bin"


def peer(program):
    """The path of another project's program; None if it isn't installed. A variable, such as MLFLOW, can name it."""
    return os.environ.get(program.upper()) or shutil.which(program) or shutil.which(program, path=str(PEERS))


def merged(base, changes):
    """`base` with the keys of `changes`, group by group; None removes a key."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def until(condition, patience=PATIENCE):
    """Waits until `condition()` is true and returns its value."""
    deadline = time.monotonic() + patience
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"the condition was not met within {patience} s")
        time.sleep(0.0005)


def read_lines(output):
    """The complete lines of metrics.jsonl, parsed, without starts and saves."""
    try:
        text = (output / "metrics.jsonl").read_text()
    except FileNotFoundError:
        return []
    return [line for line in map(json.loads, text.split("\n")[:-1]) if "event" not in line]


def results(output):
    """metrics.jsonl without values that differ between machines, such as stragglers."""
    lines = [{key: value for key, value in line.items() if key in RESULTS or key.startswith(("eval_", "rewards/"))}
             for line in read_lines(output)]
    return [line for line in lines if line.keys() != {"step"}]


def last_step(output):
    return max((line["step"] for line in read_lines(output)), default=0)


def snapshot(folder):
    """Every file below `folder` with a hash of its content, except for lock files."""
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(folder.rglob("*")) if path.is_file() and path.name != ".lock"}


class Run:
    """A launched job."""

    def __init__(self, command, mark, folder):
        self.mark = mark
        self._out = open(folder / "stdout", "w+")
        self._err = open(folder / "stderr", "w+")
        self._process = subprocess.Popen(command, cwd=folder, env={**os.environ, MARK: mark}, stdin=subprocess.DEVNULL,
                                         stdout=self._out, stderr=self._err)
        self.pid = self._process.pid

    def wait(self):
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {PATIENCE} s:\n{self.out}{self.err}") from None
        return self

    def kill_with(self, signal_number):
        if not self.ended():
            self._process.send_signal(signal_number)

    def kill(self):
        self._process.kill()
        self._process.wait()
        return self

    def ended(self):
        return self._process.poll() is not None

    @property
    def code(self):
        return self._process.returncode

    @property
    def out(self):
        return pathlib.Path(self._out.name).read_text()

    @property
    def err(self):
        return pathlib.Path(self._err.name).read_text()

    def close(self):
        if not self.ended():
            self.kill()
        self._out.close()
        self._err.close()

    def ranks(self):
        """Process ids of the ranks, by rank."""
        return {int(environment["RANK"]): pid for pid, environment in processes(self.mark).items()
                if "RANK" in environment and pid != self.pid}


def processes(mark):
    """Environment of each living process that carries the mark, by process id."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # ended meanwhile, or belongs to another user
        environment = dict(word.decode(errors="replace").split("=", 1) for word in words if b"=" in word)
        if environment.get(MARK) == mark:
            found[int(entry.name)] = environment
    return found


def listening_ports(pids):
    """TCP ports on which one of these processes listens, each in its own network namespace."""
    ports = set()
    for pid in pids:
        sockets = set()
        try:
            for descriptor in pathlib.Path(f"/proc/{pid}/fd").iterdir():
                target = os.readlink(descriptor)
                if target.startswith("socket:["):
                    sockets.add(target[len("socket:["):-1])
        except OSError:
            continue
        ports |= {port for port, socket in _listening(pid) if socket in sockets}
    return ports


def all_listening_ports():
    return {port for port, _ in _listening("self")}


def _listening(pid):
    listens = "0A"
    for table in ("tcp", "tcp6"):
        try:
            lines = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:  # ended meanwhile, or without IPv6
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == listens:
                yield int(fields[1].rsplit(":", 1)[1], 16), fields[9]


class EndToEnd(unittest.TestCase):
    """A test with its own folder and a shared tokenizer."""

    @classmethod
    def setUpClass(cls):
        if not TRAINER:
            raise unittest.SkipTest("TRAINER_BIN is not set: the path of the built `trainer`")
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="trainer-end-to-end-"))
        cls.shared.chmod(0o755)  # one test runs the program as another user
        cls.addClassCleanup(shutil.rmtree, cls.shared, ignore_errors=True)
        os.environ["XDG_CACHE_HOME"] = str(cls.shared / "cache")  # tokenized samples
        os.environ["HF_HUB_CACHE"] = str(cls.shared / "hub")
        (cls.shared / "cache").mkdir(mode=0o777)
        (cls.shared / "cache").chmod(0o777)
        cls.tokenizer = cls.shared / "tokenizer"
        subprocess.run([TRAINER, "tokenize", "train", "--input", SAMPLES, "--format", "delimited", "--output",
                        cls.tokenizer, "--vocab_size", "280"], check=True, capture_output=True)

    @classmethod
    def base_model(cls):
        """The model folder of a run of one update."""
        folder = cls.shared / "base"
        if not folder.exists():
            job = merged(JOB, {"model": {"config": TINY_T5}, "tokenizer": {"path": str(cls.tokenizer)},
                               "output_dir": str(folder), "training": {"max_steps": 1}, "data": {"validation": None},
                               "evaluation": None})
            path = cls.shared / "base.yaml"
            path.write_text(json.dumps(job, indent=1))
            subprocess.run([TRAINER, "launch", "--config_file", path], check=True, capture_output=True)
            shutil.rmtree(folder / "checkpoint-1")
            (folder / "latest").unlink()
        return folder

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="test-", dir=self.shared))
        self.folder.chmod(0o755)
        self.mark = uuid.uuid4().hex
        self.addCleanup(self._end_processes)

    def _end_processes(self):
        for pid in processes(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
        return path

    def job(self, output, *changes):
        """Writes the tiny job with changes to a file; `output` is relative to the test's folder."""
        job = merged(JOB, {"model": {"config": TINY_T5}, "tokenizer": {"path": str(self.tokenizer)},
                           "output_dir": str(self.folder / output)})
        for change in changes:
            job = merged(job, change)
        return self.write(f"{output}.yaml", json.dumps(job, indent=1))

    def trainer(self, *words, before=()):
        """Starts the program with these arguments."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="screen-", dir=self.folder))
        run = Run([*before, TRAINER, *words], self.mark, folder)
        self.addCleanup(run.close)
        return run

    def start(self, config, *flags, before=()):
        return self.trainer("launch", "--config_file", config, *flags, before=before)

    def launch(self, config, *flags, code=0):
        """Runs to the end and checks the exit code."""
        run = self.start(config, *flags).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def assert_nothing_runs(self):
        until(lambda: not processes(self.mark))

    def assert_same_run(self, output, expected):
        """The same metrics, final weights and predictions, bit for bit."""
        self.assertEqual(results(output), results(expected))
        for name in ("model.safetensors", "adapter_model.safetensors", "predictions.jsonl"):
            self.assertEqual((output / name).exists(), (expected / name).exists(), name)
            if (expected / name).exists():
                self.assertEqual((output / name).read_bytes(), (expected / name).read_bytes(), name)
