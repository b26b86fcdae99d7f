"""CPU time of the configuration commands compared with Accelerate's, in interleaved pairs.

  check   a file with three errors: `trainer check` reports all of them, `accelerate launch` its first
  config  a new file without questions: `trainer config --yes`, `accelerate config default`
  bad     every file in tests/config/bad: the time until `trainer check` has reported the error

Runs with any Python 3.10 or newer; the peer uses the environment given with --python. README.md describes its setup.
"""

import argparse
import dataclasses
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import machine
from programs import ROOT

BAD = ROOT / "tests" / "config" / "bad"
WRONG = """\
compute_environment: LOCAL_MACHINE
distributed_type: FSDP
fsdp_config:
  fsdp_sharding_strategy: FULL_SHRAD
mixed_precision: fp32
num_procesess: 2
num_processes: 2
use_cpu: true
"""


@dataclasses.dataclass
class Spent:
    cpu: float   # seconds of user and system time, children included
    wall: float  # seconds
    code: int
    last_line: str


def spend(command: list[str], folder: pathlib.Path) -> Spent:
    screen = folder / "screen.txt"
    with open(screen, "wb") as sink:
        before = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=folder,
                                   env={**os.environ, "HF_HUB_OFFLINE": "1"})
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.monotonic() - before
    process.returncode = os.waitstatus_to_exitcode(status)
    lines = screen.read_text(errors="replace").strip().splitlines() or [""]
    return Spent(usage.ru_utime + usage.ru_stime, wall, process.returncode, lines[-1])


def compare(title: str, commands: dict[str, list[str]], pairs: int, folder: pathlib.Path, fails: bool) -> None:
    """Runs both in turn. `fails`: whether both commands are expected to fail."""
    spent: dict[str, list[Spent]] = {name: [] for name in commands}
    for i in range(pairs + 1):  # the first pair fills the page cache
        for name, command in commands.items():
            for made in folder.glob("new-*"):
                made.unlink()
            result = spend(command, folder)
            if (result.code != 0) != fails:
                sys.exit(f"exit {result.code}: {shlex.join(command)}\n{result.last_line}")
            if i > 0:
                spent[name].append(result)
    print(f"\n{title}")
    for name, command in commands.items():
        print(f"  {name}: {shlex.join(command)}\n    last line: {spent[name][0].last_line[:150]}")
    for what, value in (("CPU", lambda s: s.cpu), ("wall", lambda s: s.wall)):
        medians = {name: statistics.median(map(value, runs)) for name, runs in spent.items()}
        ratios = [value(theirs) / value(ours) for ours, theirs in zip(spent["trainer"], spent["peer"])]
        print(f"  {what:5}" + ", ".join(f"{name} {1000 * median:.1f} ms" for name, median in medians.items()) +
              f": {statistics.median(ratios):.0f}x less (pairs {min(ratios):.0f} to {max(ratios):.0f})")


def check(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    (folder / "wrong.yaml").write_text(WRONG)
    (folder / "script.py").write_text("from accelerate import Accelerator\nAccelerator(cpu=True)\n")
    compare("a file with three errors", {
        "peer": [arguments.accelerate, "launch", "--config_file", "wrong.yaml", "script.py"],
        "trainer": [arguments.trainer, "check", "--config_file", "wrong.yaml"],
    }, arguments.pairs, folder, fails=True)


def config(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    compare("a new file without questions", {
        "peer": [arguments.accelerate, "config", "default", "--config_file", "new-peer.yaml"],
        "trainer": [arguments.trainer, "config", "--yes", "--config_file", "new-trainer.yaml"],
    }, arguments.pairs, folder, fails=False)


def bad(arguments: argparse.Namespace, folder: pathlib.Path) -> None:
    walls = {}
    for path in sorted(BAD.glob("*.yaml")) + sorted(BAD.glob("*.json")):
        runs = [spend([arguments.trainer, "check", "--config_file", str(path)], folder) for _ in range(3)]
        walls[path.name] = statistics.median(run.wall for run in runs)
    slowest = max(walls, key=walls.get)
    print(f"\n{len(walls)} broken files: median {1000 * statistics.median(walls.values()):.1f} ms, "
          f"slowest {1000 * walls[slowest]:.1f} ms ({slowest})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", choices=["check", "config", "bad", []], help="default: all")
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="the peer's interpreter")
    parser.add_argument("--trainer", default=str(ROOT / "build" / "release" / "bin" / "trainer"))
    parser.add_argument("--pairs", type=int, default=7)
    arguments = parser.parse_args()
    arguments.accelerate = str(arguments.python.parent / "accelerate")
    print(f"machine: {machine.describe()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as temporary:
        for what in arguments.what or ["check", "config", "bad"]:
            {"check": check, "config": config, "bad": bad}[what](arguments, pathlib.Path(temporary))


if __name__ == "__main__":
    main()
