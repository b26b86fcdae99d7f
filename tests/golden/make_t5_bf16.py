"""Writes t5/bf16_v1_0 and t5/bf16_v1_1: values in fp64, and the errors of torch.autocast("cpu", bfloat16)."""

import torch
from golden_t5 import FOLDER, config, load, make_samples, padded, sample_logits, target_tokens, weights, write_json, \
    write_tensors

SIZES = dict(d_model=28, d_kv=9, num_heads=3, d_ff=36, vocab_size=37, relative_attention_num_buckets=32,
             relative_attention_max_distance=128)
MODELS = {
    "bf16_v1_0": (3, config(**SIZES, num_layers=2, decoder_layers=1, feed_forward_proj="relu")),
    "bf16_v1_1": (4, config(**SIZES, num_layers=1, decoder_layers=1, feed_forward_proj="gated-gelu",
                            tie_word_embeddings=False)),
}
LENGTHS = [(24, 12), (9, 26), (40, 5), (17, 17), (3, 8), (31, 18)]


def relative_error(value: torch.Tensor, exact: torch.Tensor) -> float:
    return ((value.double() - exact).norm() / exact.norm()).item()


def run(model: torch.nn.Module, samples: list[dict], autocast: bool) -> tuple[dict, dict]:
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        output = model(**padded(samples), use_cache=False)
    output.loss.backward()
    return sample_logits(output.logits, samples), {n: p.grad for n, p in model.named_parameters()}


def sample_losses(logits: dict[str, torch.Tensor], samples: list[dict]) -> torch.Tensor:
    """Each sample's summed cross-entropy, computed in fp64 from the given logits."""
    cross_entropy = torch.nn.functional.cross_entropy
    return torch.stack([
        cross_entropy(logits[f"logits_{i}"].double(), torch.tensor(sample["labels"]), reduction="sum")
        for i, sample in enumerate(samples)
    ])


def make_model(name: str, seed: int, config: dict) -> None:
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    tensors = weights(config, seed, untied="v1_1" in name, embedding=1.0, branch=1.0)
    write_tensors(folder / "model.safetensors", tensors)
    samples = make_samples(config["vocab_size"], LENGTHS, torch.Generator().manual_seed(seed))
    write_json(folder / "batches.json", {"batches": [{"samples": samples}]})

    logits, gradients = run(load(folder).double(), samples, autocast=False)
    cast_logits, cast_gradients = run(load(folder), samples, autocast=True)

    def flat(tensors: dict) -> torch.Tensor:
        return torch.cat([tensor.flatten() for tensor in tensors.values()])

    # Stored in fp32, whose rounding is tens of thousands of times smaller than bf16's.
    expected = {**logits, **{f"gradient.{key}": value for key, value in gradients.items()}}
    write_tensors(folder / "expected.safetensors", {key: value.float() for key, value in expected.items()})
    losses, cast_losses = sample_losses(logits, samples), sample_losses(cast_logits, samples)
    count = target_tokens(samples)
    record = {
        "loss": losses.sum().item() / count,
        "loss_sum": losses.sum().item(),
        "target_tokens": count,
        "sample_losses": losses.tolist(),
        # Relative L2 errors. The batch's loss is left out: errors of samples cancel, so its error is random.
        "autocast_error": {
            "sample_losses": relative_error(cast_losses, losses),
            "logits": relative_error(flat(cast_logits), flat(logits)),
            "all_gradients": relative_error(flat(cast_gradients), flat(gradients)),
            "gradients": {key: relative_error(cast_gradients[key], gradients[key]) for key in gradients},
        },
    }
    write_json(folder / "expected.json", record)
    print(name, {key: value for key, value in record["autocast_error"].items() if key != "gradients"})


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, (seed, settings) in MODELS.items():
        make_model(name, seed, settings)
