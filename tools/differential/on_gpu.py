"""The random jobs on a GPU, against their runs on a CPU.

python tools/differential/on_gpu.py prepare TRAINER FOLDER [--first SEED] [--count N]
python3 tools/differential/on_gpu.py compare TRAINER FOLDER [--jobs N]

`prepare` draws jobs, trains each with trainer on the CPU, and leaves its files in FOLDER: a model, records, a configuration
that asks for a GPU, and the CPU's metrics. It needs the packages of `python tools/differential`. `compare`, which needs
only Python, trains them again, as many as --jobs at a time, and compares the losses, gradient norms and rates of all
updates, and the evaluations. A part of the jobs computes in bf16, or in fp16, which the CPU's run does in fp32. Several
ranks share the GPU, over Gloo.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import subprocess

PATIENCE = 90  # seconds of a run
PRECISIONS = ("no", "no", "bf16", "fp16")


def launched(trainer, folder):
    try:
        done = subprocess.run([trainer, "launch", "--config_file", "job.yaml"], cwd=folder, capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired as late:
        return None, f"still running after {PATIENCE} s: {late.stdout}{late.stderr}"
    return done.returncode, done.stdout + done.stderr


def prepare_one(trainer, seed, folder):
    import yaml  # pylint: disable=import-outside-toplevel  (compare must not need these)
    import jobs  # pylint: disable=import-outside-toplevel
    import ours  # pylint: disable=import-outside-toplevel
    import peer  # pylint: disable=import-outside-toplevel

    job = jobs.Job(seed)
    precision = random.Random(seed).choice(PRECISIONS)
    model = peer.save_model(job, folder)
    if job.peft:
        peer.with_adapter(job, model, folder)
    ours.write_records(folder / "train.jsonl", job.train)
    ours.write_records(folder / "held_out.jsonl", job.held_out)
    on_cpu = ours.configuration(job) | {"mixed_precision": "bf16" if precision == "bf16" else "no"}
    on_gpu = on_cpu | {"use_cpu": False, "mixed_precision": precision, "num_processes": on_cpu.get("num_processes", 1)}
    if on_gpu["num_processes"] > 1:
        on_gpu["training"] = on_cpu["training"] | {"ddp_backend": "gloo"}
    if on_cpu["distributed_type"] == "MULTI_CPU":
        on_gpu["distributed_type"] = "MULTI_GPU"

    def write(config):
        (folder / "job.yaml").write_text(yaml.safe_dump(config, sort_keys=False, allow_unicode=True))

    write(on_cpu)
    code, text = launched(trainer, folder)
    if code != 0:
        raise RuntimeError(f"exit {code} on the CPU: {text[-300:]}")
    (folder / "out/metrics.jsonl").rename(folder / "cpu.jsonl")
    write(on_gpu)
    (folder / "about.json").write_text(json.dumps({"precision": precision, "job": f"{job.family}, {job.arguments}, "
                                                   f"{job.peft}, {job.strategy}, {job.quantization}"}))
    for made in ("out", "cache", "peer"):
        shutil.rmtree(folder / made, ignore_errors=True)


def prepare(arguments):
    os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
    for seed in range(arguments.first, arguments.first + arguments.count):
        folder = arguments.folder / str(seed)
        folder.mkdir(parents=True)
        try:
            prepare_one(arguments.trainer, seed, folder)
        except Exception as error:  # pylint: disable=broad-except  (PEFT's or trainer's refusal)
            print(f"{seed}: {error}", flush=True)
            shutil.rmtree(folder)


def differences(folder, half):
    """Of the metrics. Rounding grows with each update, but not in the learning rate."""
    found, expected = ([json.loads(line) for line in (folder / name).read_text().splitlines()]
                       for name in ("out/metrics.jsonl", "cpu.jsonl"))
    mine, cpu = ([line for line in lines if "event" not in line] for lines in (found, expected))
    if [line["step"] for line in mine] != [line["step"] for line in cpu]:
        return [f"updates: CPU {[line['step'] for line in cpu]}, GPU {[line['step'] for line in mine]}"]
    different = []
    for line, same in zip(mine, cpu):
        grown, least = 1.5 ** max(0, line["step"] - 1), 1e-2 if half else 1e-5
        for key, relative, absolute in (("loss", (0.03 if half else 1e-4) * grown, least),
                                        ("eval_loss", (0.03 if half else 1e-4) * grown, least),
                                        ("grad_norm", (0.08 if half else 1e-3) * grown, least),
                                        ("learning_rate", 1e-6, 0)):
            a, b = same.get(key), line.get(key)
            if (a is None) != (b is None) or a is not None and abs(a - b) > relative * max(abs(a), abs(b)) + absolute:
                different.append(f"step {line['step']}: {key}: CPU {a}, GPU {b}")
    return different


def compare_one(trainer, folder):
    about = json.loads((folder / "about.json").read_text())
    shutil.rmtree(folder / "out", ignore_errors=True)
    code, text = launched(trainer, folder)
    if code != 0:
        return f"exit {code}", [about["job"], text[-1000:]]
    if "on the CPU" in text:
        return "ran on the CPU", [about["job"]]
    if "gradients overflowed fp16" in text:
        return "skipped updates that overflowed in fp16", []
    different = differences(folder, about["precision"] != "no")
    return ("differ", [about["job"], about["precision"], *different[:5]]) if different else ("agree", [])


def compare(arguments):
    outcomes = collections.Counter()
    folders = sorted(arguments.folder.iterdir(), key=lambda folder: int(folder.name))
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for folder, (outcome, text) in zip(folders, pool.map(lambda one: compare_one(arguments.trainer, one), folders)):
            outcomes[outcome] += 1
            if text:
                print(f"{folder.name}: {outcome}: " + "\n  ".join(text), flush=True)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["prepare", "compare"])
    parser.add_argument("trainer", type=lambda path: str(pathlib.Path(path).resolve()))
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=8)
    arguments = parser.parse_args()
    (prepare if arguments.what == "prepare" else compare)(arguments)


if __name__ == "__main__":
    main()
