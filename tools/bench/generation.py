"""Generating text with `trainer generate` compared with transformers' `generate`, with the same weights and prompts.

Both choose the likeliest token, in fp32, with the same number of threads, for a batch of prompts at a time. The time of a
run for one token is subtracted, so that what remains is generating, without loading the model or reading the prompts. --ragged: eight batches of prompts, and ends of text that make replies of different lengths; the peer
takes one batch after the other, as its users do. Runs in the peer's environment:
generation.py [--shape llama-100m] [--batch 8] [--tokens 128] [--ragged] [--json RESULTS].
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable

import alternate
import machine
import make_model
import measurements
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data" / "financial_phrasebank" / "Sentences_50Agree.txt"
END = 32127     # an id that a random model hardly ever generates: all replies have full length
BATCHES = 8     # of --ragged
STARTS = 5      # runs for one token
SHORTENED = 0.5  # the mean length of its replies, of the longest


class Ours:
    def __init__(self, program: pathlib.Path, model: pathlib.Path, prompts: list[str], batch: int, work: pathlib.Path):
        file = work / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), encoding="utf-8")
        self.command = [program, "generate", model, "--input", file, "--output", work / "replies.jsonl", "--batch_size",
                        str(batch), "--max_new_tokens"]

    def seconds(self, tokens: int) -> float:
        start = time.monotonic()
        subprocess.run([*self.command, str(tokens)], check=True, capture_output=True)
        return time.monotonic() - start


class Peer:
    def __init__(self, model: pathlib.Path, prompts: list[list[int]], batch: int):
        architecture = json.loads((model / "config.json").read_text())["architectures"][0]
        self.model = getattr(transformers, architecture).from_pretrained(model, dtype=torch.float32).eval()
        self.batches = [prompts[first:first + batch] for first in range(0, len(prompts), batch)]

    def replies(self, tokens: int, ends: list[int]) -> list[list[int]]:
        """The new tokens of each prompt, with the one that ends them."""
        found = []
        for prompts in self.batches:
            longest = max(map(len, prompts))
            ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
            mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])
            with torch.no_grad():
                made = self.model.generate(input_ids=ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False,
                                           pad_token_id=0, eos_token_id=ends)
            skipped = 1 if self.model.config.is_encoder_decoder else longest
            found += [until_end(reply, ends) for reply in made[:, skipped:].tolist()]
        return found

    def seconds(self, tokens: int, ends: list[int]) -> float:
        start = time.monotonic()
        self.replies(tokens, ends)
        return time.monotonic() - start


def until_end(reply: list[int], ends: list[int]) -> list[int]:
    return next((reply[:i + 1] for i, token in enumerate(reply) if token in ends), reply)


def ends_for(replies: list[list[int]]) -> list[int]:
    """Ends of text that shorten these replies to about SHORTENED of their length on average."""
    ends, whole = [END], sum(map(len, replies))
    tokens = sorted({token for reply in replies for token in reply})
    for token in random.Random(2).sample(tokens, len(tokens)):
        if sum(len(until_end(reply, [*ends, token])) for reply in replies) >= SHORTENED * whole:
            ends.append(token)
    return ends


def token_ids(program: pathlib.Path, model: pathlib.Path, prompts: list[str], work: pathlib.Path) -> list[list[int]]:
    """As our side encodes them."""
    file = work / "prompts.txt"
    file.write_text("\n".join(prompts) + "\n", encoding="utf-8")
    lines = subprocess.run([program, "tokenize", "--tokenizer", model, "--ids", file], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return [json.loads(line) for line in lines]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trainer", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "trainer")
    parser.add_argument("--data", type=pathlib.Path, default=DATA, help="lines sentence@label")
    parser.add_argument("--shape", choices=make_model.SHAPES, default="llama-100m")
    parser.add_argument("--weights", choices=["float32", "bfloat16"], default="float32",
                        help="their dtype in the model's file; both compute in fp32")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=pathlib.Path, help="the file that keeps the result, as one line (measurements.py)")
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(machine.describe())
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as folder:
        work = pathlib.Path(folder)
        model = work / "model"
        subprocess.run([os.sys.executable, pathlib.Path(__file__).parent / "make_model.py", model, "--shape",
                        arguments.shape, "--data", arguments.data, "--dtype", arguments.weights], check=True, capture_output=True)
        lines = arguments.data.read_text(encoding="latin-1").splitlines()
        count = arguments.batch * (BATCHES if arguments.ragged else 1)
        prompts = [line.split("@")[0].strip() for line in random.Random(1).sample(lines, count)]
        peer = Peer(model, token_ids(arguments.trainer, model, prompts, work), arguments.batch)
        ends = ends_for(peer.replies(arguments.tokens, [END])) if arguments.ragged else [END]
        (model / "generation_config.json").write_text(
            json.dumps({"eos_token_id": ends, "pad_token_id": 0, "decoder_start_token_id": 0}))
        ours = Ours(arguments.trainer, model, prompts, arguments.batch, work)
        made = sum(map(len, peer.replies(arguments.tokens, ends))) - count  # without the first token of each
        found = compare({"peer": lambda tokens: peer.seconds(tokens, ends), "trainer": ours.seconds}, arguments, made)
    title = (f"{arguments.shape}, generating {'up to ' if arguments.ragged else ''}{arguments.tokens} tokens for {count} "
             f"prompts, {arguments.batch} at a time, {torch.get_num_threads()} threads"
             + (f", weights in {arguments.weights}" if arguments.weights != "float32" else ""))
    print(f"{title}: {len(found.quiet)} of {arguments.rounds} rounds were quiet")
    results = {"void": found.void} if found.void else {"generating [s]": rows_of(found)}
    print(f"void: {found.void}" if found.void else
          "\n".join(f"{name:<8}{found.speed(name):8.0f} tokens/s" for name in ("peer", "trainer")) +
          "\nratio   {:8.2f} ({:.2f} to {:.2f})".format(*found.ratio("trainer", "peer")))
    if arguments.json:
        flags = ["--shape", arguments.shape] + ["--ragged"] * arguments.ragged
        flags += ["--weights", arguments.weights] if arguments.weights != "float32" else []
        measurements.keep(arguments.json,
                          {"command": shlex.join(["generation.py", *flags]), "title": title, "results": results})


def compare(sides: dict[str, Callable[[int], float]], arguments: argparse.Namespace, made: int) -> alternate.Comparison:
    start = {}
    for name, seconds_of in sides.items():
        seconds_of(2)
        start[name] = statistics.median(seconds_of(1) for _ in range(STARTS))
    found = []
    for number in range(arguments.rounds):
        looks, seconds = [machine.look([])], {}
        for name in sorted(sides, reverse=number % 2 == 1):
            sides[name](1)  # a virtual machine's host takes unused memory away, and gives it back slowly
            seconds[name] = sides[name](arguments.tokens) - start[name]
            looks.append(machine.look([]))
        found.append(alternate.Round(seconds, dict.fromkeys(sides, made), looks))
        print("  " + "  ".join(f"{name} {s:.2f} s" for name, s in seconds.items()) +
              ("" if found[-1].quiet else "  not quiet"), flush=True)
    return alternate.Comparison(found, {}, {})


def rows_of(found: alternate.Comparison) -> dict:
    rows = {name: {"value": statistics.median(r.seconds[name] for r in found.quiet)} for name in ("peer", "trainer")}
    rows["peer"]["ratio"] = found.ratio("trainer", "peer")
    return rows


if __name__ == "__main__":
    main()
