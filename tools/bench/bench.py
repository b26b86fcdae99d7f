"""Runs `trainer launch` and Accelerate + PEFT on the same job, in interleaved pairs, and compares the results.

  bench.py start    wall time from the command to its first finished update, tiny T5 with LoRA, two ranks
  bench.py lora     real (non-padding) tokens per second and peak memory of the LoRA job, with a padded and a tuned peer
  bench.py fsdp     the same for full training, sharded on both sides: FULL_SHARD and torch's own fully_shard

Runs with any Python 3.10 or newer; the peer uses the environment given with --python. README.md describes its setup.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DATA = ROOT.parent / "shared" / "data" / "financial_phrasebank" / "Sentences_50Agree.txt"
WARM_UP = 3        # updates that are not counted
NOISE = 0.15       # a comparison is void if the peer's own runs spread more than this
POLL_SECONDS = 0.005


@dataclasses.dataclass
class Job:
    """The job that both programs run."""
    model: pathlib.Path
    data: pathlib.Path
    steps: int
    batch: int
    ranks: int
    strategy: str      # trainer's: NO, MULTI_CPU or FSDP
    dropout: float = 0.1
    lora: bool = True  # false: full training

    @property
    def threads(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.ranks)


@dataclasses.dataclass
class Result:
    seconds_to_first_step: float
    seconds: float
    records: list[dict]
    largest_process: int     # bytes, peak
    all_processes: int       # bytes, sum of peaks; shared pages count in each process
    together: int            # bytes, peak of all processes at a time; shared pages count once

    @property
    def tokens_per_second(self) -> float:
        counted = self.records[WARM_UP:] or self.records[-1:]
        tokens = sum(r["tokens_per_second"] * r["step_seconds"] for r in counted)
        return tokens / sum(r["step_seconds"] for r in counted)

    @property
    def updates_per_second(self) -> float:
        counted = self.records[WARM_UP:] or self.records[-1:]
        return len(counted) / sum(r["step_seconds"] for r in counted)


# --- the two programs ---

def trainer_yaml(job: Job, output: pathlib.Path) -> str:
    """JSON, a subset of YAML."""
    config = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": job.strategy,
        "mixed_precision": "no",
        "num_machines": 1,
        "num_processes": job.ranks,
        "num_cpu_threads_per_process": job.threads,
        "use_cpu": True,
        "seed": 1,
        "output_dir": str(output),
        "model": {"path": str(job.model)},
        "data": {
            "task": "seq2seq_lm",
            "train": {"path": str(job.data), "format": "delimited", "delimiter": "@", "split_at": "last",
                      "columns": ["sentence", "label"]},
            "source": "sentence", "target": "label", "max_source_length": 128, "max_target_length": 8,
            "shuffle": False,
        },
        "lora": {"r": 8, "lora_alpha": 32, "lora_dropout": job.dropout, "target_modules": ["q", "v"]},
        "training": {"per_device_train_batch_size": job.batch, "max_steps": job.steps, "learning_rate": 1e-3,
                     "lr_scheduler_type": "linear", "weight_decay": 0.0, "max_grad_norm": 1.0,
                     "optim": "adamw_torch_fused"},
        "checkpoint": {"resume_from_checkpoint": False},
        "logging": {"logging_steps": 1},
    }
    if not job.lora:
        del config["lora"]
    if job.strategy == "FSDP":
        config["fsdp_config"] = {"fsdp_sharding_strategy": "FULL_SHARD",
                                 "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                                 "fsdp_transformer_layer_cls_to_wrap": "T5Block"}
    return json.dumps(config, indent=2)


def trainer_command(arguments: argparse.Namespace, job: Job, folder: pathlib.Path) -> list[str]:
    (folder / "job.yaml").write_text(trainer_yaml(job, folder / "out"))
    return [str(arguments.trainer), "launch", "--config_file", str(folder / "job.yaml")]


def peer_command(arguments: argparse.Namespace, job: Job, folder: pathlib.Path, options: list[str]) -> list[str]:
    # Accelerate 1.15 starts several ranks on one CPU machine only through its FSDP launcher (MULTI_CPU starts one).
    # The ranks then run DDP, because it shards only on accelerators.
    config = {"compute_environment": "LOCAL_MACHINE", "mixed_precision": "no", "num_machines": 1, "machine_rank": 0,
              "main_process_port": 0, "num_processes": job.ranks, "use_cpu": True, "distributed_type": "NO"}
    if job.ranks > 1:
        config.update(distributed_type="FSDP", fsdp_config={"fsdp_version": 2, "fsdp_auto_wrap_policy": "NO_WRAP",
                                                            "fsdp_cpu_ram_efficient_loading": False})
    (folder / "accelerate.json").write_text(json.dumps(config, indent=2))
    return [str(arguments.python.parent / "accelerate"), "launch", "--config_file", str(folder / "accelerate.json"),
            "--num_cpu_threads_per_process", str(job.threads), str(HERE / "peer.py"), "--model", str(job.model),
            "--data", str(job.data), "--output", str(folder / "out"), "--steps", str(job.steps),
            "--batch", str(job.batch), "--dropout", str(job.dropout), *([] if job.lora else ["--full"]), *options]


# --- running and monitoring one run ---

def process_group(leader: int) -> list[int]:
    """The leader and all its descendants."""
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


def peak_memory(process: int) -> int:
    """Bytes; 0 if the process has ended."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    return int(status.split("VmHWM:")[1].split()[0]) * 1024 if "VmHWM:" in status else 0


def shared_out(process: int) -> int:
    """Bytes; a page shared by several processes is split between them. 0 if the process has ended."""
    try:
        rollup = pathlib.Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(rollup.split("\nPss:")[1].split()[0]) * 1024 if "\nPss:" in rollup else 0


def read_records(path: pathlib.Path) -> list[dict]:
    """The records of updates, from complete lines."""
    if not path.exists():
        return []
    lines = path.read_text().rpartition("\n")[0].splitlines()
    return [record for record in map(json.loads, lines) if "step_seconds" in record]


def end(process: subprocess.Popen) -> None:
    """Kills a run that is still running, including its ranks: torchrun puts them into separate sessions."""
    if process.poll() is None:
        for member in process_group(process.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(member, signal.SIGKILL)
        process.wait()


def tail(screen: pathlib.Path) -> str:
    return "\n".join(screen.read_text(errors="replace").splitlines()[-15:])


def run(command: list[str], folder: pathlib.Path, limit: float) -> Result:
    metrics, screen = folder / "out" / "metrics.jsonl", folder / "screen.txt"
    first, peaks, together, last_look = None, {}, 0, 0.0
    with open(screen, "wb") as sink, contextlib.ExitStack() as at_exit:
        start = time.monotonic()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
                                   env={**os.environ, "HF_HUB_OFFLINE": "1"})  # the peer must not wait for a network
        at_exit.callback(end, process)
        while process.poll() is None:
            now = time.monotonic() - start
            if first is None and read_records(metrics):
                first = time.monotonic() - start
            if now - last_look > 0.2:
                last_look = now
                members = process_group(process.pid)
                for member in members:
                    peaks[member] = max(peaks.get(member, 0), peak_memory(member))
                together = max(together, sum(map(shared_out, members)))
            if now > limit:
                sys.exit(f"ran for more than {limit:.0f} s: {shlex.join(command)}\n{tail(screen)}")
            time.sleep(POLL_SECONDS)
        seconds = time.monotonic() - start
    records = read_records(metrics)
    if process.returncode != 0 or not records:
        sys.exit(f"exit {process.returncode}, {len(records)} updates: {shlex.join(command)}\n{tail(screen)}")
    return Result(seconds if first is None else first, seconds, records, max(peaks.values()), sum(peaks.values()),
                  together)


def run_pairs(arguments: argparse.Namespace, programs: dict, job: Job, work: pathlib.Path) -> dict[str, list[Result]]:
    """Runs the programs in turn, --pairs times each."""
    results = {name: [] for name in programs}
    for i in range(arguments.pairs):
        for name, command_of in programs.items():
            folder = work / f"{name}-{i}".replace(" ", "-")
            folder.mkdir()
            command = command_of(folder)
            if i == 0:
                print(f"{name}: {shlex.join(command)}", flush=True)
            before = stolen()
            result = run(command, folder, arguments.limit)
            results[name].append(result)
            print(f"  {name} {i + 1}: first update after {result.seconds_to_first_step:.2f} s, "
                  f"{result.tokens_per_second:.0f} tokens/s, load {os.getloadavg()[0]:.1f}, "
                  f"stolen {stolen() - before:.1f} s", flush=True)
            shutil.rmtree(folder / "out", ignore_errors=True)
    return results


# --- output ---

def stolen() -> float:
    """Seconds that the host has taken from this machine's cores so far."""
    fields = pathlib.Path("/proc/stat").read_text().splitlines()[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")


def describe_machine() -> str:
    info = pathlib.Path("/proc/cpuinfo").read_text()

    def field(name: str) -> str:
        found = [line.split(":", 1)[1].strip() for line in info.splitlines() if line.startswith(name)]
        return found[0] if found else "?"

    flags = field("flags").split()
    special = [flag for flag in ("avx2", "avx512f", "avx512_bf16", "amx_bf16", "amx_tile") if flag in flags]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return (f"{field('model name')} (family {field('cpu family')}, model {field('model')}), "
            f"{len(os.sched_getaffinity(0))} cores, {memory:.0f} GiB, {' '.join(special)}, "
            f"{platform.system()} {platform.release()}, load {os.getloadavg()[0]:.1f}")


def spread(values: list[float]) -> float:
    return (max(values) - min(values)) / statistics.median(values)


def print_table(title: str, unit: str, results: dict[str, list[Result]], value, more_is_better: bool) -> None:
    """One row per program: median, best, spread, and the ratio to trainer, pair by pair."""
    ours = [value(result) for result in results["trainer"]] if "trainer" in results else []
    print(f"\n{title} [{unit}]")
    print(f"{'':16}{'median':>10}{'best':>10}{'spread':>9}   trainer is better by (median of pairs, lowest, highest)")
    for name, runs in results.items():
        values = [value(result) for result in runs]
        best = max(values) if more_is_better else min(values)
        row = f"{name:16}{statistics.median(values):10.2f}{best:10.2f}{spread(values):8.0%} "
        if ours and name != "trainer":
            ratios = [a / b if more_is_better else b / a for a, b in zip(ours, values)]
            row += f"  {statistics.median(ratios):.2f}x  {min(ratios):.2f}x  {max(ratios):.2f}x"
        if name != "trainer":
            row += "  void: too few runs" if len(values) < 3 else "  void: too noisy" if spread(values) > NOISE else ""
        print(row)


def print_losses(results: dict[str, list[Result]]) -> None:
    print("\nloss of the first and the last update")
    for name, runs in results.items():
        print(f"{name:16}" + "  ".join(f"{r.records[0]['loss']:.4f} {r.records[-1]['loss']:.4f}" for r in runs))


def start(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> None:
    lines = job.data.read_text(encoding="utf-8").splitlines()[:64]  # little data, because data loading isn't measured
    job.data = work / "sentences.txt"
    job.data.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    results = run_pairs(arguments, programs(arguments, job, {"peer": []}), job, work)
    print_table("from the command to the first finished update", "s", results, lambda r: r.seconds_to_first_step, False)
    print_table("from the command to its end", "s", results, lambda r: r.seconds, False)
    print_losses(results)


def lora(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> None:
    peers = {"peer tuned": ["--padding", "dynamic"], "peer padded": ["--padding", "max"]}
    if job.ranks > 1 and arguments.peer_fsdp:
        peers["peer tuned FSDP2"] = ["--padding", "dynamic", "--strategy", "fsdp2"]
    results = run_pairs(arguments, programs(arguments, job, peers), job, work)
    print_table("real tokens per second, source and target", "tokens/s", results, lambda r: r.tokens_per_second, True)
    print_table("peak memory of the largest process", "MB", results, lambda r: r.largest_process / 1e6, False)
    print_table("peak memory of all processes", "MB", results, lambda r: r.all_processes / 1e6, False)
    print_losses(results)


def fsdp(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> None:
    job.lora = False
    peers = {"fully_shard": ["--padding", "dynamic", "--strategy", "fsdp2"]}
    results = run_pairs(arguments, programs(arguments, job, peers), job, work)
    print_table("real tokens per second, source and target", "tokens/s", results, lambda r: r.tokens_per_second, True)
    print_table("updates per second", "1/s", results, lambda r: r.updates_per_second, True)
    print_table("peak memory of the largest process", "MB", results, lambda r: r.largest_process / 1e6, False)
    print_table("peak memory of all processes at a time", "MB", results, lambda r: r.together / 1e6, False)
    print_losses(results)


def programs(arguments: argparse.Namespace, job: Job, peers: dict[str, list[str]]) -> dict:
    """Name -> a function that writes a run's files into a folder and returns its command."""
    chosen = {}
    if arguments.only != "trainer":
        for name, options in peers.items():
            chosen[name] = lambda folder, options=options: peer_command(arguments, job, folder, options)
    if arguments.only != "peer":
        chosen["trainer"] = lambda folder: trainer_command(arguments, job, folder)
    return chosen


def make_model(arguments: argparse.Namespace, work: pathlib.Path) -> pathlib.Path:
    folder = arguments.model or work / arguments.shape
    if not (folder / "model.safetensors").exists():
        made = subprocess.run([arguments.python, HERE / "make_model.py", folder, "--shape", arguments.shape,
                               "--data", arguments.data], check=False, stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            sys.exit(made.stderr)
    return folder


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "lora", "fsdp"])
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="the peer's interpreter")
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="lines sentence@label")
    parser.add_argument("--model", type=pathlib.Path, help="folder to use or create; default: a temporary one")
    parser.add_argument("--shape", choices=["tiny", "t5-small", "t5-base"],
                        help="default: tiny for start, else t5-small")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--steps", type=int, help="updates per run; default: 1 for start, else 12")
    parser.add_argument("--batch", type=int, default=8, help="samples per rank")
    parser.add_argument("--ranks", type=int, help="default: 1 for lora, else 2")
    parser.add_argument("--strategy", choices=["NO", "MULTI_CPU", "FSDP"],
                        help="trainer's strategy; default: NO for one rank, else FSDP")
    parser.add_argument("--dropout", type=float, default=0.1, help="with 0, the losses of both programs are comparable")
    parser.add_argument("--peer-fsdp", action="store_true", help="also run the peer sharded by torch's FSDP2")
    parser.add_argument("--only", choices=["peer", "trainer"], help="run only one side")
    parser.add_argument("--limit", type=float, default=600, help="time limit of a single run, in seconds")
    arguments = parser.parse_args()
    is_start = arguments.what == "start"
    arguments.shape = arguments.shape or ("tiny" if is_start else "t5-small")
    arguments.steps = arguments.steps or (1 if is_start else 12)
    arguments.ranks = arguments.ranks or (1 if arguments.what == "lora" else 2)
    arguments.strategy = arguments.strategy or ("NO" if arguments.ranks == 1 else "FSDP")
    return arguments


def main() -> None:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"machine: {describe_machine()}", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as temporary:
        work = pathlib.Path(temporary)
        job = Job(make_model(arguments, work), arguments.data, arguments.steps, arguments.batch, arguments.ranks,
                  arguments.strategy, arguments.dropout)
        print(f"job: {arguments.shape}, {job.ranks} ranks x {job.batch} samples, {job.threads} threads per rank, "
              f"{job.steps} updates, dropout {job.dropout}, trainer runs {job.strategy}")
        {"start": start, "lora": lora, "fsdp": fsdp}[arguments.what](arguments, job, work)


if __name__ == "__main__":
    main()
