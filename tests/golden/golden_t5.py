"""Shared by the scripts that make T5's golden files: tiny models, batches, and the storage of expected values."""

import json
import pathlib

import torch
from safetensors.torch import save_file
from transformers import T5ForConditionalGeneration, logging

logging.set_verbosity_error()
logging.disable_progress_bar()

FOLDER = pathlib.Path(__file__).parent / "t5"


def config(decoder_layers: int, **sizes) -> dict:
    """config.json of a T5 without dropout."""
    return {
        "architectures": ["T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "num_decoder_layers": decoder_layers,
        "dropout_rate": 0.0,
        "layer_norm_epsilon": 1e-6,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "decoder_start_token_id": 0,
        **sizes,
    }


def weights(config: dict, seed: int, untied: bool, embedding: float, branch: float) -> dict[str, torch.Tensor]:
    """Random weights as in a trained model: no norm is 1 and no bias table 0.

    `embedding` is the std of the embedding; `branch` scales the contribution of each sub-layer to the residual stream.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int, std: float, mean: float = 0.0) -> torch.Tensor:
        return mean + std * torch.randn(*shape, generator=generator)

    width, inner, hidden = config["d_model"], config["num_heads"] * config["d_kv"], config["d_ff"]
    tensors = {"shared.weight": normal(config["vocab_size"], width, std=embedding)}

    def attention(name: str, table: bool) -> None:
        tensors[f"{name}.q.weight"] = normal(inner, width, std=1.5 * (width * config["d_kv"]) ** -0.5)
        for part in ("k", "v"):
            tensors[f"{name}.{part}.weight"] = normal(inner, width, std=width**-0.5)
        tensors[f"{name}.o.weight"] = normal(width, inner, std=branch * inner**-0.5)
        if table:
            shape = (config["relative_attention_num_buckets"], config["num_heads"])
            tensors[f"{name}.relative_attention_bias.weight"] = normal(*shape, std=0.5)

    def feed_forward(name: str) -> None:
        gated = config["feed_forward_proj"].startswith("gated-")
        for part in ("wi_0", "wi_1") if gated else ("wi",):
            tensors[f"{name}.{part}.weight"] = normal(hidden, width, std=width**-0.5)
        tensors[f"{name}.wo.weight"] = normal(width, hidden, std=branch * hidden**-0.5)

    for stack, layers in (("encoder", config["num_layers"]), ("decoder", config["num_decoder_layers"])):
        for i in range(layers):
            layer = f"{stack}.block.{i}.layer"
            attention(f"{layer}.0.SelfAttention", table=i == 0)
            if stack == "decoder":
                attention(f"{layer}.1.EncDecAttention", table=False)
            last = 2 if stack == "decoder" else 1
            feed_forward(f"{layer}.{last}.DenseReluDense")
            for k in range(last + 1):
                tensors[f"{layer}.{k}.layer_norm.weight"] = normal(width, std=0.2, mean=1.0)
        tensors[f"{stack}.final_layer_norm.weight"] = normal(width, std=0.2, mean=1.0)
    if untied:
        tensors["lm_head.weight"] = normal(config["vocab_size"], width, std=0.4)
    return tensors


def load(folder: pathlib.Path) -> T5ForConditionalGeneration:
    model = T5ForConditionalGeneration.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32)
    untied = "lm_head.weight" in dict(model.named_parameters())
    stored = "v1_1" in folder.name
    assert untied == stored, f"{folder}: the head is {'untied' if untied else 'tied'}"
    assert model.config.scale_decoder_outputs != untied
    return model.eval()


def make_samples(vocabulary: int, lengths: list[tuple[int, int]], generator: torch.Generator) -> list[dict]:
    """Samples of random ids; source and labels end with </s> = 1, which the lengths include."""

    def ids(length: int) -> list[int]:
        return torch.randint(2, vocabulary, (length - 1,), generator=generator).tolist() + [1]

    return [{"source": ids(source), "labels": ids(target)} for source, target in lengths]


def padded(samples: list[dict]) -> dict[str, torch.Tensor]:
    """The batch in transformers' format: ids padded with 0, labels with -100."""

    def pad(rows: list[list[int]], value: int) -> torch.Tensor:
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [value] * (longest - len(row)) for row in rows])

    sources = [sample["source"] for sample in samples]
    return {
        "input_ids": pad(sources, 0),
        "attention_mask": pad([[1] * len(row) for row in sources], 0),
        "labels": pad([sample["labels"] for sample in samples], -100),
    }


def target_tokens(samples: list[dict]) -> int:
    return sum(label != -100 for sample in samples for label in sample["labels"])


def sample_logits(logits: torch.Tensor, samples: list[dict]) -> dict[str, torch.Tensor]:
    """logits_<i> [U, V]: the rows of sample i without padding."""
    return {f"logits_{i}": logits[i, : len(s["labels"])].detach().clone() for i, s in enumerate(samples)}


def write_json(path: pathlib.Path, value: object) -> None:
    """Prints floats so that they read back as the same double, and each list of numbers on one line."""

    def text(value: object, indent: str) -> str:
        inside = indent + "  "
        if isinstance(value, dict) and value:
            rows = [f"{inside}{json.dumps(key)}: {text(item, inside)}" for key, item in value.items()]
            return "{\n" + ",\n".join(rows) + f"\n{indent}}}"
        if isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value):
            return "[\n" + ",\n".join(inside + text(item, inside) for item in value) + f"\n{indent}]"
        return json.dumps(value)

    path.write_text(text(value, "") + "\n")


def write_tensors(path: pathlib.Path, tensors: dict[str, torch.Tensor]) -> None:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata={"format": "pt"})
    path.chmod(0o644)
