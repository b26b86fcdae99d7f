"""How the time of an update grows with the work: tokens, layers, ranks. No peer.

    python3 tools/bench/scaling.py --python /tmp/peer/bin/python --plot docs/scaling.svg --json docs/performance.jsonl

For each of the three, LLaMAs of several sizes are in memory, and one at a time makes an update (alternate.py). Cost is
in proportion to size if the points are on a straight line: the table shows each size's time, and its difference from the
line through the smallest and the largest. With more ranks than cores, the same update should take as long as with one.
"""

import argparse
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile

import machine
import measurements
from alternate import WARM_UP, compare
from bench import DATA
from programs import HERE, ROOT, Job, trainer_command

SIZES = {"tokens": [256, 512, 1024, 2048], "layers": [2, 4, 8, 12], "ranks": [1, 2, 4]}
LENGTH = 256  # tokens of a sample


def make_model(arguments: argparse.Namespace, folder: pathlib.Path, layers: int) -> pathlib.Path:
    subprocess.run([arguments.python, HERE / "make_model.py", folder, "--shape", "llama-100m", "--data", DATA,
                    "--set", f"num_hidden_layers={layers}"], check=True, stdout=subprocess.DEVNULL)
    return folder


def jobs(arguments: argparse.Namespace, what: str, work: pathlib.Path) -> dict[str, Job]:
    """By size."""
    middle = make_model(arguments, work / "4-layers", 4)
    base = Job(middle, DATA, WARM_UP + arguments.rounds + 1, 4, 1, "NO", length=LENGTH)
    found = {}
    for size in SIZES[what]:
        if what == "tokens":
            found[str(size)] = dataclasses.replace(base, batch=size // LENGTH)
        elif what == "layers":
            model = middle if size == 4 else make_model(arguments, work / f"{size}-layers", size)
            found[str(size)] = dataclasses.replace(base, model=model)
        else:
            found[str(size)] = dataclasses.replace(base, ranks=size, batch=4 // size,
                                                   strategy="NO" if size == 1 else "MULTI_CPU")
    return found


def measure(arguments: argparse.Namespace, what: str, work: pathlib.Path) -> dict[int, float]:
    """Median seconds of an update, by size; empty without enough quiet rounds."""
    commands = {name: lambda folder, job=job: trainer_command(arguments, job, folder)
                for name, job in jobs(arguments, what, work).items()}
    found = compare(commands, work, arguments.rounds, limit=1800)
    if found.void:
        print(f"{what}: void: {found.void}")
        return {}
    return {int(name): statistics.median(one.seconds[name] for one in found.quiet) for name in commands}


def on_line(times: dict[int, float], size: int) -> float:
    """Seconds at `size` on the line through the first and the last point."""
    (first, low), (last, high) = min(times.items()), max(times.items())
    return low + (high - low) * (size - first) / (last - first)


def table(what: str, times: dict[int, float]) -> list[str]:
    lines = [f"| {what} | seconds of an update | on the line |", "|---|---|---|"]
    for size, seconds in times.items():
        expected = times[1] if what == "ranks" else on_line(times, size)
        lines.append(f"| {size} | {seconds:.3f} | {expected:.3f} ({seconds / expected - 1:+.0%}) |")
    return lines


def plot(results: dict[str, dict[int, float]], path: pathlib.Path) -> None:
    width, height, edge = 260, 200, 40
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{3 * width}" height="{height + 20}" '
             'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="white"/>']
    for panel, (what, times) in enumerate(results.items()):
        most, longest = max(times), max(times.values())
        x = [panel * width + edge + size / most * (width - edge - 15) for size in times]
        y = [height - 25 - seconds / longest * (height - 50) for seconds in times.values()]
        left, bottom = panel * width + edge, height - 25
        parts.append(f'<path d="M{left} 15V{bottom}H{panel * width + width - 10}" fill="none" stroke="#888"/>')
        points = " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y))
        parts.append(f'<polyline points="{points}" fill="none" stroke="#2563eb" stroke-width="2"/>')
        for a, b, (size, seconds) in zip(x, y, times.items()):
            parts.append(f'<circle cx="{a:.1f}" cy="{b:.1f}" r="3" fill="#2563eb"/>'
                         f'<text x="{a:.1f}" y="{bottom + 14}" text-anchor="middle">{size}</text>'
                         f'<text x="{a - 4:.1f}" y="{b - 7:.1f}" text-anchor="end">{seconds:.2f} s</text>')
        parts.append(f'<text x="{left + (width - edge) / 2:.0f}" y="{bottom + 30}" text-anchor="middle" '
                     f'font-weight="bold">{what}</text>')
    path.write_text("\n".join([*parts, "</svg>", ""]), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", type=pathlib.Path, default=pathlib.Path(sys.executable),
                        help="an interpreter with torch and transformers, which makes the models")
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--what", choices=SIZES, nargs="*", default=list(SIZES))
    parser.add_argument("--plot", type=pathlib.Path, help="an SVG file to write")
    parser.add_argument("--json", type=pathlib.Path, help="the file that keeps the result, as one line (measurements.py)")
    arguments = parser.parse_args()
    print(f"machine: {machine.describe()}; LLaMA, 768 wide, LoRA, samples of {LENGTH} tokens")
    results = {}
    for what in arguments.what:
        with tempfile.TemporaryDirectory(prefix="trainer-bench-") as work:
            if times := measure(arguments, what, pathlib.Path(work)):
                results[what] = times
                print("", *table(what, times), sep="\n")
    if arguments.plot and results:
        plot(results, arguments.plot)
    if arguments.json and results:
        measurements.keep(arguments.json, {"command": "scaling.py", "scaling": results})


if __name__ == "__main__":
    main()
