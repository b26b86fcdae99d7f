"""Runs `trainer launch` and Accelerate + PEFT on the same job, and compares the results.

  bench.py start    wall time from the command to its first finished update, tiny T5 with LoRA, two ranks: pairs of runs
  bench.py lora     real (non-padding) tokens per second and peak memory of the LoRA job, with a padded and a tuned peer
  bench.py fsdp     the same for full training, sharded on both sides: FULL_SHARD and torch's own fully_shard
  bench.py causal   the same for a causal model, --full or with LoRA, on blocks of 512 tokens; the peer uses SDPA

`lora`, `fsdp` and `causal` keep all programs in memory and let one at a time make an update. A round in which the machine
was not quiet isn't counted, and without enough quiet rounds no ratio is printed. Runs with any Python 3.10 or newer; the
peer uses the environment given with --python. README.md describes its setup.
"""

import argparse
import json
import os
import pathlib
import shlex
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile

import machine
import measurements
from alternate import WARM_UP, Comparison, compare
from processes import Program
from programs import HERE, ROOT, Job, programs

DATA = ROOT.parent / "shared" / "data" / "financial_phrasebank" / "Sentences_50Agree.txt"
NOISE = 0.15  # `start` is void if the peer's own runs spread more than this


def start(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> dict:
    """Runs the programs in turn, --rounds times each."""
    lines = job.data.read_text(encoding="utf-8").splitlines()[:64]  # little data, because data loading isn't measured
    job.data = work / "sentences.txt"
    job.data.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    chosen = programs(arguments, job, {"peer": []})
    first = {name: [] for name in chosen}
    for number in range(arguments.rounds):
        for name, command_of in chosen.items():
            folder = work / f"{name}-{number}"
            folder.mkdir()
            with Program(name, command_of(folder), folder, arguments.limit) as program:
                program.wait_for_update(1)
                first[name].append(program.seconds())  # its end isn't waited for: a rank of the peer may hang there
            shutil.rmtree(folder)
        print("  " + "  ".join(f"{name} {times[-1]:.2f} s" for name, times in first.items()), flush=True)
    return {"from the command to the first finished update [s]": print_times("first update", first)}


def print_times(title: str, times: dict[str, list[float]]) -> dict:
    print(f"\n{title} [s]: median, best; how many times faster trainer is: median of pairs, lowest, highest")
    rows = {}
    for name, values in times.items():
        row = {"value": statistics.median(values)}
        text = f"{name:16}{row['value']:10.2f}{min(values):10.2f}"
        if "trainer" in times and name != "trainer":
            spread = (max(values) - min(values)) / row["value"]
            if len(values) < 3 or spread > NOISE:
                row["void"] = f"{len(values)} runs of the peer spread by {spread:.0%}"
                text += f"  void: {row['void']}"
            else:
                ratios = [theirs / ours for ours, theirs in zip(times["trainer"], values)]
                row["ratio"] = statistics.median(ratios), min(ratios), max(ratios)
                text += "  {:.2f}x  {:.2f}x  {:.2f}x".format(*row["ratio"])
        print(text)
        rows[name] = row
    return rows


def lora(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> dict:
    peers = {"peer tuned": ["--padding", "dynamic"], "peer padded": ["--padding", "max"]}
    if job.ranks > 1 and arguments.peer_fsdp:
        peers["peer tuned FSDP2"] = ["--padding", "dynamic", "--strategy", "fsdp2"]
    return print_comparison(compare(programs(arguments, job, peers), work, arguments.rounds, arguments.limit))


def fsdp(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> dict:
    peers = {"fully_shard": ["--padding", "dynamic", "--strategy", "fsdp2"]}
    return print_comparison(compare(programs(arguments, job, peers), work, arguments.rounds, arguments.limit))


def causal(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> dict:
    return print_comparison(compare(programs(arguments, job, {"peer": []}), work, arguments.rounds, arguments.limit))


def print_comparison(found: Comparison) -> dict:
    print(f"\n{len(found.quiet)} of {len(found.rounds)} rounds were quiet")
    if found.void:
        print(f"void: {found.void}")
        return {"void": found.void}
    print("real tokens/s; updates/s; how many times faster trainer is, with its 95 % interval; peak memory [MB] of the "
          "largest process, of all together, and of these without files' pages; loss of the first and the last update")
    rows = {}
    for name, memory in found.memory.items():
        row = {"tokens_per_second": found.speed(name), "updates_per_second": found.updates_per_second(name),
               "largest_process": memory.largest, "together": memory.together, "without_files": memory.without_files,
               "losses": [found.losses[name][0], found.losses[name][-1]]}
        text = f"{name:16}{row['tokens_per_second']:8.0f} {row['updates_per_second']:7.3f}"
        if "trainer" in found.memory and name != "trainer":
            row["ratio"] = found.ratio("trainer", name)
            text += "  {:.2f}x ({:.2f} to {:.2f})".format(*row["ratio"])
        else:
            text += " " * 22
        print(f"{text}  {memory.largest / 1e6:7.0f} {memory.together / 1e6:7.0f} {memory.without_files / 1e6:7.0f}   {row['losses'][0]:.4f} "
              f"{row['losses'][1]:.4f}")
        rows[name] = row
    return rows


def profile(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> dict:
    """Where the time of trainer's update goes, and how fast this machine's products are, by `trainer profile`."""
    folder = work / "profile"
    folder.mkdir()
    launch = programs(arguments, job, {})["trainer"](folder)
    found = json.loads(subprocess.run([launch[0], "profile", *launch[2:], "--json"], check=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, timeout=arguments.limit).stdout)
    at_peak = found["product_flops"] / found["peak_flops"]
    print(f"trainer profile: products at {found['peak_flops'] / 1e9:.0f} GFLOP/s would need {at_peak:.3f} s of an update's "
          f"{found['seconds']:.3f} s")
    return {"seconds": found["seconds"], "products_at_peak": at_peak, "peak_flops": found["peak_flops"],
            "tokens": found["tokens_per_second"] * found["seconds"], "share": found["share"],
            "phases": {name: phase["seconds"] for name, phase in found["phases"].items()},
            "tensor_bytes": found["tensor_bytes"], "resident_bytes": found["resident_bytes"],
            "operators": found["operators"][:8]}


def title_of(arguments: argparse.Namespace, job: Job) -> str:
    return (f"{arguments.shape}, {'LoRA' if job.lora else 'full training'}, {job.ranks} x {job.batch} samples, "
            f"{job.threads} threads a rank, dropout {job.dropout}, trainer: {job.strategy}"
            + (f", {job.precision}" if job.precision != "no" else "") + (", base in nf4" if job.quantized else "")
            + (f", weights in {arguments.weights}" if arguments.weights != "float32" else "")
            + (f", activations saved in {job.saved}" if job.saved != "as_computed" else ""))


def make_model(arguments: argparse.Namespace, work: pathlib.Path) -> pathlib.Path:
    folder = arguments.model or work / arguments.shape
    if not (folder / "model.safetensors").exists():
        made = subprocess.run([arguments.python, HERE / "make_model.py", folder, "--shape", arguments.shape,
                               "--data", arguments.data, "--dtype", arguments.weights], check=False, stderr=subprocess.PIPE, text=True)
        if made.returncode != 0:
            sys.exit(made.stderr)
    return folder


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["start", "lora", "fsdp", "causal"])
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="the peer's interpreter")
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="lines sentence@label")
    parser.add_argument("--model", type=pathlib.Path, help="folder to use or create; default: a temporary one")
    parser.add_argument("--shape", choices=["tiny", "t5-small", "t5-base", "llama-100m", "gpt2-small"],
                        help="default: tiny for start, llama-100m for causal, else t5-small")
    parser.add_argument("--weights", choices=["float32", "bfloat16"], default="float32",
                        help="their dtype in the model's file; the peer computes with them in fp32")
    parser.add_argument("--rounds", type=int, help="default: 5 for start, else 24")
    parser.add_argument("--batch", type=int, help="samples per rank; default: 2 for causal, else 8")
    parser.add_argument("--ranks", type=int, help="default: 1 for lora and causal, else 2")
    parser.add_argument("--strategy", choices=["NO", "MULTI_CPU", "FSDP"],
                        help="trainer's strategy; default: NO for one rank, else FSDP")
    parser.add_argument("--full", action="store_true", help="causal: train every weight, without LoRA")
    parser.add_argument("--precision", choices=["no", "bf16"], default="no", help="mixed_precision; the peer's autocast")
    parser.add_argument("--quantize", action="store_true",
                        help="causal: the frozen base in nf4 with double quantization; the peer needs bitsandbytes")
    parser.add_argument("--saved", choices=["as_computed", "bfloat16", "int8"], default="as_computed",
                        help="trainer's training.saved_activations")
    parser.add_argument("--dropout", type=float, default=0.1, help="with 0, the losses of both programs are comparable")
    parser.add_argument("--peer-fsdp", action="store_true", help="also run the peer sharded by torch's FSDP2")
    parser.add_argument("--only", choices=["peer", "trainer"], help="run only one side")
    parser.add_argument("--limit", type=float, default=1800, help="time limit of a program, in seconds")
    parser.add_argument("--json", type=pathlib.Path, help="the file that keeps the result, as one line (measurements.py)")
    parser.add_argument("--note", help="the command that the line of --json names; default: this one")
    arguments = parser.parse_args()
    by_what = {"start": ("tiny", 5, 8, 2), "lora": ("t5-small", 24, 8, 1), "fsdp": ("t5-small", 24, 8, 2),
               "causal": ("llama-100m", 24, 2, 1)}
    shape, rounds, batch, ranks = by_what[arguments.what]
    arguments.shape = arguments.shape or shape
    arguments.rounds = arguments.rounds or rounds
    arguments.batch = arguments.batch or batch
    arguments.ranks = arguments.ranks or ranks
    arguments.strategy = arguments.strategy or ("NO" if arguments.ranks == 1 else "FSDP")
    arguments.full = arguments.full or arguments.what == "fsdp"
    return arguments


def main() -> None:
    arguments = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    print(f"machine: {machine.describe()}, load {os.getloadavg()[0]:.1f}", flush=True)
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as temporary:
        work = pathlib.Path(temporary)
        # The last update of a run is followed by what ends it, so it is not one of the rounds.
        steps = 1 if arguments.what == "start" else WARM_UP + arguments.rounds + 1
        job = Job(make_model(arguments, work), arguments.data, steps, arguments.batch, arguments.ranks,
                  arguments.strategy, arguments.dropout, not arguments.full, precision=arguments.precision,
                  saved=arguments.saved, quantized=arguments.quantize)
        print(f"job: {title_of(arguments, job)}", flush=True)
        results = {"start": start, "lora": lora, "fsdp": fsdp, "causal": causal}[arguments.what](arguments, job, work)
        wanted = arguments.what != "start" and arguments.only != "peer" and "void" not in results
        profiled = profile(arguments, job, work) if wanted else None
    if arguments.json:
        measured = {"command": arguments.note or shlex.join(["bench.py", *sys.argv[1:]]), "title": title_of(arguments, job),
                    "results": results}
        measurements.keep(arguments.json, measured | ({"profile": profiled} if profiled else {}))


if __name__ == "__main__":
    main()
