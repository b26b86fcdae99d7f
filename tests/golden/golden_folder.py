"""Shared by scripts whose golden files are one folder per case: weights, batches, expected values."""

import hashlib
import json
import math
import pathlib

import torch
from golden_t5 import write_json, write_tensors
from torch.nn.functional import cross_entropy

GOLDEN = pathlib.Path(__file__).parent


def random_weights(model: torch.nn.Module, seed: int) -> dict[str, torch.Tensor]:
    """Values as in a trained model, tied weights only once: no norm is 1 and no bias 0."""
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    norms = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.LayerNorm)}

    def draw(parameter: torch.nn.Parameter) -> torch.Tensor:
        values = torch.randn(parameter.shape, generator=generator)
        if id(parameter) in norms:
            return 1 + 0.2 * values
        if id(parameter) in embeddings:
            return 0.6 * values
        return (0.2 if parameter.dim() == 1 else 1.5 * max(parameter.shape) ** -0.5) * values

    return {name: draw(parameter) for name, parameter in model.named_parameters()}


def random_samples(lengths: list[int], first: int, vocabulary: int, generator: torch.Generator) -> list[dict]:
    """Random ids, at least `first`, so that no sample contains padding."""
    return [{"source": torch.randint(first, vocabulary, (n,), generator=generator).tolist()} for n in lengths]


def padded(samples: list[dict], pad: int = 0) -> dict[str, torch.Tensor]:
    """The batch in transformers' format: padded on the right, with a mask."""
    longest = max(len(sample["source"]) for sample in samples)
    rows = [sample["source"] + [pad] * (longest - len(sample["source"])) for sample in samples]
    masks = [[1] * len(s["source"]) + [0] * (longest - len(s["source"])) for s in samples]
    return {"input_ids": torch.tensor(rows), "attention_mask": torch.tensor(masks)}


def expect(model: torch.nn.Module, samples: list[dict], logits_of) -> tuple[dict, dict[str, torch.Tensor]]:
    """Loss and gradients of the samples as one padded batch. The logits are those of each sample run alone, checked
    against those of the padded batch: `logits_of(logits, i)` returns the rows [U, V] of sample i."""
    output = model(**padded(samples))
    together = [logits_of(output.logits, i) for i in range(len(samples))]
    labels = [torch.tensor(sample["labels"]) for sample in samples]
    loss_sum = sum(cross_entropy(rows, wanted, reduction="sum") for rows, wanted in zip(together, labels))
    count = sum(int((wanted != -100).sum()) for wanted in labels)
    (loss_sum / count).backward()
    tensors = {}
    for i, sample in enumerate(samples):
        with torch.no_grad():
            alone = model(input_ids=torch.tensor([sample["source"]])).logits[:1]
        rows = alone[0] if alone.dim() == 3 else alone
        assert (rows - together[i]).norm() <= 1e-5 * rows.norm(), "padding changes the result"
        tensors[f"logits_{i}"] = rows.clone()
    for name, parameter in model.named_parameters():
        tensors["gradient." + name] = parameter.grad.clone()
    return {"loss_sum": loss_sum.item(), "target_tokens": count}, tensors


def digest(shapes: dict[str, tuple[int, ...]]) -> str:
    """FNV-1a of the lines "name [d0,d1]", sorted by name; the C++ test computes the same."""
    value = 0xCBF29CE484222325
    for name in sorted(shapes):
        for byte in f"{name} [{','.join(map(str, shapes[name]))}]\n".encode():
            value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def real_sizes(build, configs: dict[str, dict]) -> list[dict]:
    """The names and shapes of full-size models, without values; tied weights under each of their names."""
    sizes = []
    for name, config in configs.items():
        with torch.device("meta"):
            model = build(config)
        shapes = {key: tuple(value.shape) for key, value in model.state_dict().items()}
        sizes.append({"name": name, "config": config, "weights": len(shapes),
                      "parameters": sum(p.numel() for p in model.parameters()), "digest": digest(shapes)})
    return sizes


def write_folder(folder: pathlib.Path, config: dict, weights: dict[str, torch.Tensor], stored: torch.dtype) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_tensors(folder / "model.safetensors", {name: value.to(stored) for name, value in weights.items()})
