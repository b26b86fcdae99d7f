"""Generating text with `trainer generate` compared with transformers' `generate`, with the same weights and prompts.

Both choose the likeliest token, in fp32, with the same number of threads. A round times each side twice, for one token and
for all of them: the difference is the time of generating, without loading the model or reading the prompts. Runs in the
peer's environment: generation.py [--shape llama-100m] [--batch 8] [--tokens 64].
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import machine
import make_model
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
END = 32127  # an id that a random model hardly ever generates: all replies have full length
LEAST = 5    # quiet rounds, for a ratio


class Ours:
    def __init__(self, program: pathlib.Path, model: pathlib.Path, prompts: list[str], work: pathlib.Path):
        file = work / "prompts.jsonl"
        file.write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts), encoding="utf-8")
        self.command = [program, "generate", model, "--input", file, "--output", work / "replies.jsonl", "--batch_size",
                        str(len(prompts)), "--max_new_tokens"]

    def seconds(self, tokens: int) -> float:
        start = time.monotonic()
        subprocess.run([*self.command, str(tokens)], check=True, capture_output=True)
        return time.monotonic() - start


class Peer:
    def __init__(self, model: pathlib.Path, prompts: list[list[int]]):
        architecture = json.loads((model / "config.json").read_text())["architectures"][0]
        self.model = getattr(transformers, architecture).from_pretrained(model, dtype=torch.float32).eval()
        longest = max(map(len, prompts))
        self.ids = torch.tensor([[0] * (longest - len(prompt)) + prompt for prompt in prompts])
        self.mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts])

    def seconds(self, tokens: int) -> float:
        start = time.monotonic()
        with torch.no_grad():
            made = self.model.generate(input_ids=self.ids, attention_mask=self.mask, max_new_tokens=tokens,
                                       min_new_tokens=tokens, do_sample=False, pad_token_id=0, eos_token_id=END)
        assert made.shape[0] == self.ids.shape[0]
        return time.monotonic() - start


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
    parser.add_argument("--data", type=pathlib.Path, required=True, help="lines sentence@label")
    parser.add_argument("--shape", choices=make_model.SHAPES, default="llama-100m")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=12)
    arguments = parser.parse_args()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    print(machine.describe())
    with tempfile.TemporaryDirectory(prefix="trainer-bench-") as folder:
        work = pathlib.Path(folder)
        model = work / "model"
        subprocess.run([os.sys.executable, pathlib.Path(__file__).parent / "make_model.py", model, "--shape",
                        arguments.shape, "--data", arguments.data], check=True, capture_output=True)
        (model / "generation_config.json").write_text(
            json.dumps({"eos_token_id": END, "pad_token_id": 0, "decoder_start_token_id": 0}))
        lines = arguments.data.read_text(encoding="latin-1").splitlines()
        prompts = [line.split("@")[0].strip() for line in random.Random(1).sample(lines, arguments.batch)]
        sides = {"peer": Peer(model, token_ids(arguments.trainer, model, prompts, work)),
                 "trainer": Ours(arguments.trainer, model, prompts, work)}
        for side in sides.values():
            side.seconds(2)
        found: list[dict[str, float]] = []
        for number in range(arguments.rounds):
            looks, seconds = [machine.look([])], {}
            for name in sorted(sides, reverse=number % 2 == 1):
                one = sides[name].seconds(1)
                seconds[name] = sides[name].seconds(arguments.tokens) - one
                looks.append(machine.look([]))
            work_only = [look.work for look in looks]
            if max(work_only) <= min(work_only) * (1 + machine.TOLERANCE):
                found.append(seconds)
        print(f"{arguments.shape}, {arguments.batch} prompts, {arguments.tokens} tokens each, "
              f"{torch.get_num_threads()} threads, fp32: {len(found)} of {arguments.rounds} rounds were quiet")
        if len(found) < LEAST:
            print(f"void: a ratio takes {LEAST} quiet rounds")
            return
        count = arguments.batch * (arguments.tokens - 1)
        for name in sides:
            print(f"{name:<8}{count / statistics.median(s[name] for s in found):8.0f} tokens/s")
        print(f"ratio   {statistics.median(s['peer'] / s['trainer'] for s in found):8.2f}")


if __name__ == "__main__":
    main()
