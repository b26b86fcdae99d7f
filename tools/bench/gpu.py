"""Training of a LLaMA in bf16 on one GPU, LoRA or all weights: trainer beside Accelerate + PEFT, and beside a loop by hand
around torch.compile.

Samples are blocks of --length tokens, so that nothing is padded, or, with --ragged, texts of 1 to 32 sentences, which
Accelerate's script pads to the longest of its batch; the peers run the attention that torch chooses. One
program at a time is on the GPU. They take turns, in an order that is reversed from round to round, and make the same
updates. Prints tokens per second (median of the updates after the warm-up), the peak of tensor memory on the GPU, MFU as
`trainer check --device` counts it, and how the goals are met. On the CPU (--device cpu), where programs run in fp32, it
only shows that all programs run the same job.
"""

import argparse
import json
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

from processes import Program
from programs import HERE, ROOT, Job, peer_command, peer_options, trainer_command, trainer_yaml

WARM_UP = 5  # updates; the compiled loop compiles in the first
COMPILED = ["torch.compile", "compiled-blocks"]
PROGRAMS = ["trainer", "accelerate", *COMPILED]
GOAL_SPEED, GOAL_MEMORY, GOAL_MFU = 1.5, 0.6, 0.5


def repeated(data: pathlib.Path, bytes_wanted: int, work: pathlib.Path) -> pathlib.Path:
    """The lines of `data`, as often as it takes: long samples need more text than the examples have."""
    text = data.read_text(encoding="utf-8")
    path = work / "text.txt"
    path.write_text(text * (1 + bytes_wanted // len(text)), encoding="utf-8")
    return path


def ragged_lines(data: pathlib.Path, count: int, work: pathlib.Path) -> pathlib.Path:
    """`count` lines of 1 to 32 sentences of `data`, half of them of at most 5: instructions are short, some are long."""
    dice = random.Random(1)
    sentences = [line.rpartition("@")[0] for line in data.read_text(encoding="utf-8").splitlines() if "@" in line]
    path = work / "text.txt"
    path.write_text("".join(" ".join(dice.choices(sentences, k=int(2 ** dice.uniform(0, 5)))) + "\n" for _ in range(count)),
                    encoding="utf-8")
    return path


def make_model(arguments: argparse.Namespace, work: pathlib.Path) -> pathlib.Path:
    folder = arguments.model or work / arguments.shape
    if not (folder / "config.json").exists():
        half = arguments.device == "cuda"
        made = subprocess.run([arguments.python, HERE / "make_model.py", folder, "--shape", arguments.shape, "--data",
                               arguments.data, "--device", arguments.device,
                               "--dtype", "bfloat16" if half else "float32"],
                              check=False, capture_output=True, text=True)
        if made.returncode != 0:
            sys.exit(made.stdout + made.stderr)
    return folder


def flops_per_token(arguments: argparse.Namespace, job: Job, work: pathlib.Path) -> tuple[float, str]:
    """That MFU counts, as a part of the card's FLOP/s for each token per second; 0 and why if it isn't known."""
    if job.device == "cpu":
        return 0, "no MFU on a CPU"
    name = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader", "--id=0"], check=True,
                          capture_output=True, text=True).stdout.strip()
    (work / "plan.yaml").write_text(trainer_yaml(job, work / "planned"))
    answer = subprocess.run([arguments.trainer, "check", "--json", "--config_file", work / "plan.yaml", "--device", name],
                            check=False, capture_output=True, text=True)
    speed = json.loads(answer.stdout).get("speed") if answer.returncode == 0 else None
    if not speed:
        return 0, f"no MFU: `trainer check --device '{name}'` exited with {answer.returncode}: {answer.stderr.strip()}"
    return speed["mfu"] / speed["tokens_per_second"], f"MFU of {name}"


def compiled_command(arguments: argparse.Namespace, job: Job, folder: pathlib.Path, options: list[str]) -> list[str]:
    return [str(arguments.python), str(HERE / "compiled.py"), *peer_options(job, folder), *options]


def measure(name: str, command: list[str], folder: pathlib.Path, job: Job, limit: float) -> dict:
    with Program(name, command, folder, limit) as program:
        program.wait_for_update(job.steps)
        records = program.records()
        counted = records[WARM_UP:job.steps]
        return {"speed": statistics.median(r["tokens_per_second"] for r in counted), "losses": [r["loss"] for r in records],
                "memory": max(r.get("tensor_bytes", r["memory_bytes"]) for r in records)}  # trainer has both


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable), help="the peers' interpreter")
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "cuda" / "bin" / "trainer")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT / "data" / "examples" / "reports.txt")
    parser.add_argument("--model", type=pathlib.Path, help="folder to use or create; default: a temporary one")
    parser.add_argument("--shape", choices=["llama-100m", "llama-1b", "llama-8b"], default="llama-8b")
    parser.add_argument("--length", type=int, default=4096, help="tokens of a sample")
    parser.add_argument("--batch", type=int, default=1, help="samples of an update")
    parser.add_argument("--updates", type=int, default=20, help="counted updates of a run")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--full", action="store_true", help="train all weights, kept in fp32, instead of LoRA")
    parser.add_argument("--ragged", action="store_true", help="samples of different lengths; without torch.compile")
    parser.add_argument("--quantized", action="store_true", help="the frozen base in nf4; Accelerate needs bitsandbytes")
    parser.add_argument("--graphs", action="store_true", help="trainer with training.cuda_graphs")
    parser.add_argument("--dropout", type=float, default=0.0, help="of the adapters")
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=PROGRAMS, help="to run; default: all")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--limit", type=float, default=600, help="time limit of a run, in seconds")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as temporary:
        work = pathlib.Path(temporary)
        steps = WARM_UP + arguments.updates
        data = ragged_lines(arguments.data, steps * arguments.batch, work) if arguments.ragged else \
            repeated(arguments.data, 16 * steps * arguments.length * arguments.batch, work)
        job = Job(make_model(arguments, work), data, steps, arguments.batch, 1, "NO", arguments.dropout,
                  length=arguments.length, device=arguments.device,
                  precision="bf16" if arguments.device == "cuda" else "no", lora=not arguments.full,
                  graphs=arguments.graphs, ragged=arguments.ragged, quantized=arguments.quantized)
        part, about_mfu = flops_per_token(arguments, job, work)
        commands = {
            "trainer": lambda folder: trainer_command(arguments, job, folder),
            "accelerate": lambda folder: peer_command(arguments, job, folder, ["--padding", "dynamic"]),
            "torch.compile": lambda folder: compiled_command(arguments, job, folder, []),
            "compiled-blocks": lambda folder: compiled_command(arguments, job, folder, ["--by-block"])}
        names = [name for name in commands if name in arguments.programs and not (arguments.ragged and name in COMPILED)]
        runs: dict[str, list[dict]] = {name: [] for name in names}
        for number in range(arguments.rounds):
            for name in names if number % 2 == 0 else reversed(names):
                folder = work / f"{name}-{number}"
                folder.mkdir()
                runs[name].append(measure(name, commands[name](folder), folder, job, arguments.limit))
                shutil.rmtree(folder)
                print(f"  round {number + 1}: {name} {runs[name][-1]['speed']:.0f} tokens/s", flush=True)
        show(arguments, runs, part, about_mfu)


def show(arguments: argparse.Namespace, runs: dict[str, list[dict]], part: float, about_mfu: str) -> None:
    samples = "texts of different lengths" if arguments.ragged else f"{arguments.length} tokens"
    print(f"\n{arguments.shape}, {'all weights' if arguments.full else 'LoRA'}, {arguments.batch} x {samples}; {about_mfu}")
    print("tokens/s; how many times faster trainer is (lowest to highest of the rounds); peak memory; loss, first and last")
    ours = runs.get("trainer")
    memory = {name: max(run["memory"] for run in found) for name, found in runs.items()}
    for name, found in runs.items():
        speed = statistics.median(run["speed"] for run in found)
        text = f"{name:14}{speed:9.0f}" + (f"  MFU {100 * part * speed:.1f} %" if part else "")
        if ours and name != "trainer":
            ratios = [mine["speed"] / theirs["speed"] for mine, theirs in zip(ours, found)]
            part_of_memory = memory["trainer"] / memory[name]
            text += f"  {statistics.median(ratios):.2f}x ({min(ratios):.2f} to {max(ratios):.2f})"
            text += f"  trainer has {100 * part_of_memory:.0f} % of its memory"
        print(f"{text}  {memory[name] / 2**30:.1f} GiB  {found[0]['losses'][0]:.4f} {found[0]['losses'][-1]:.4f}")
    if part and ours and "accelerate" in runs:
        speed = statistics.median(mine["speed"] / theirs["speed"] for mine, theirs in zip(ours, runs["accelerate"]))
        reached = {f"{GOAL_SPEED} times Accelerate's tokens/s": speed >= GOAL_SPEED,
                   f"{GOAL_MEMORY:.0%} of its memory": memory["trainer"] <= GOAL_MEMORY * memory["accelerate"],
                   f"MFU {GOAL_MFU:.0%}": part * statistics.median(run["speed"] for run in ours) >= GOAL_MFU}
        for goal, is_reached in reached.items():
            print(f"goal {'reached' if is_reached else 'missed'}: {goal}")


if __name__ == "__main__":
    main()
