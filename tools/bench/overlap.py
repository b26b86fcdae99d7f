"""Measures how much time prefetching saves when communication is slow: pairs of runs with and without it.

Two ranks train a wide MLP under FSDP in a separate network namespace, whose loopback is slowed down with `tc`. They
send everything (TRAINER_SHARE_MEMORY=0). Needs root, for the namespace. Prints the seconds per update of each run, and
the ratio pair by pair.
"""

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMESPACE = f"trainer-overlap-{os.getpid()}"
WARM_UP = 2  # updates that are not counted
PIXELS = 28 * 28
WAYS = {
    "prefetch": {"fsdp_backward_prefetch": "BACKWARD_PRE", "fsdp_forward_prefetch": True},
    "none": {"fsdp_backward_prefetch": "NO_PREFETCH", "fsdp_forward_prefetch": False},
}


def write_images(folder: pathlib.Path, count: int) -> None:
    """Gray noise in MNIST's format."""
    pixels = bytes((i * 2654435761 >> 7) & 255 for i in range(PIXELS)) * count
    folder.joinpath("train-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + pixels)
    folder.joinpath("train-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count)))


def write_job(arguments: argparse.Namespace, way: str, folder: pathlib.Path, data: pathlib.Path) -> pathlib.Path:
    """JSON, a subset of YAML."""
    job = {
        "distributed_type": "FSDP", "num_processes": 2, "use_cpu": True, "num_cpu_threads_per_process": 1,
        "fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": "Linear", **WAYS[way]},
        "output_dir": str(folder / "out"),
        "model": {"config": {"model_type": "mlp", "input_size": PIXELS, "num_labels": 10,
                             "hidden_sizes": [arguments.width] * arguments.layers}},
        "data": {"task": "image_classification", "train": {"path": str(data), "format": "mnist"}},
        "training": {"per_device_train_batch_size": arguments.batch, "max_steps": WARM_UP + arguments.steps,
                     "optim": "sgd", "learning_rate": 0.001, "lr_scheduler_type": "constant"},
        "checkpoint": {"save_steps": 0, "resume_from_checkpoint": False},
        "logging": {"logging_steps": 1},
    }
    path = folder / "job.yaml"
    path.write_text(json.dumps(job))
    return path


@contextlib.contextmanager
def slow_loopback(rate: str):
    """A network namespace with a slow loopback."""
    inside = ["ip", "netns", "exec", NAMESPACE]
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    try:
        subprocess.run([*inside, "ip", "link", "set", "lo", "up"], check=True)
        subprocess.run([*inside, "tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", rate, "burst", "256kb",
                        "latency", "200ms"], check=True)
        yield inside
    finally:
        subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def seconds_of_update(arguments: argparse.Namespace, inside: list[str], way: str, data: pathlib.Path) -> float:
    with tempfile.TemporaryDirectory(prefix="trainer-overlap-") as temporary:
        folder = pathlib.Path(temporary)
        command = [*inside, str(arguments.trainer), "launch", "--config_file", str(write_job(arguments, way, folder, data))]
        done = subprocess.run(command, env={**os.environ, "TRAINER_SHARE_MEMORY": "0"}, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"exit {done.returncode}: {' '.join(command)}\n{done.stderr}")
        lines = (folder / "out" / "metrics.jsonl").read_text().splitlines()
        seconds = [record["step_seconds"] for record in map(json.loads, lines) if "step_seconds" in record]
    return statistics.mean(seconds[WARM_UP:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--rate", default="1gbit", help="rate of the link, in tc's syntax")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--batch", type=int, default=512, help="samples per rank")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=5)
    arguments = parser.parse_args()
    print(f"2 ranks, MLP of {arguments.layers} x {arguments.width}, {arguments.batch} samples per rank, "
          f"link {arguments.rate}, load {os.getloadavg()[0]:.1f}", flush=True)
    ratios = []
    with tempfile.TemporaryDirectory(prefix="trainer-overlap-data-") as temporary, \
            slow_loopback(arguments.rate) as inside:
        data = pathlib.Path(temporary)
        write_images(data, 2 * arguments.batch)
        for pair in range(arguments.pairs):
            order = list(WAYS) if pair % 2 == 0 else list(WAYS)[::-1]  # neither always runs first
            found = {way: seconds_of_update(arguments, inside, way, data) for way in order}
            ratios.append(found["none"] / found["prefetch"])
            print(f"  pair {pair + 1}: with prefetch {found['prefetch']:.3f} s per update, "
                  f"without {found['none']:.3f} s, {ratios[-1]:.2f}x", flush=True)
    print(f"prefetch is faster by {statistics.median(ratios):.2f}x (lowest {min(ratios):.2f}x, highest {max(ratios):.2f}x)")


if __name__ == "__main__":
    main()
