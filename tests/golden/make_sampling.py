"""Writes sampling.json: the tokens that transformers' sampling filters leave."""

import json
import pathlib
import random

import torch
from transformers import MinPLogitsWarper, TemperatureLogitsWarper, TopKLogitsWarper, TopPLogitsWarper


def kept(logits: list[float], case: dict) -> list[int]:
    """In the order in which transformers' generate applies the filters."""
    scores = TemperatureLogitsWarper(case["temperature"])(None, torch.tensor([logits]))
    if case["top_k"] > 0:
        scores = TopKLogitsWarper(case["top_k"])(None, scores)
    if case["top_p"] < 1:
        scores = TopPLogitsWarper(case["top_p"])(None, scores)
    if case["min_p"] > 0:
        scores = MinPLogitsWarper(case["min_p"])(None, scores)
    return [i for i, score in enumerate(scores[0].tolist()) if score > float("-inf")]


def main() -> None:
    draws = random.Random(11)
    cases = []
    for _ in range(120):
        logits = [round(draws.gauss(0, 2), 3) for _ in range(12)]
        case = {"temperature": draws.choice([0.3, 0.7, 1.0, 2.5]), "top_k": draws.choice([0, 0, 1, 3, 20]),
                "top_p": draws.choice([1, 0.05, 0.5, 0.9, 0.99]), "min_p": draws.choice([0, 0, 0.02, 0.3, 1])}
        cases.append({**case, "logits": logits, "kept": kept(logits, case)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (pathlib.Path(__file__).parent / "sampling.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
