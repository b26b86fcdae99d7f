"""Loads trainer's saved models and adapters in transformers and PEFT, and compares their logits with trainer's own.

A full model: --model FOLDER. An adapter: --model BASE_FOLDER --adapter FOLDER; it is also merged into the base.
--samples: JSON {"samples": [{"source": [ids], "labels": [ids]}]}.
--logits: safetensors with logits_<i> [U, V] of sample i.
Exits with 1 if an error exceeds the tolerance.
"""

import argparse
import json
import pathlib
import sys

import peft
import torch
import transformers
from safetensors.torch import load_file


def load_model(folder: pathlib.Path) -> transformers.PreTrainedModel:
    """An instance of the class that config.json names. Refuses missing and unexpected weights; transformers only warns
    about them."""
    architecture = json.loads((folder / "config.json").read_text())["architectures"][0]
    model, report = getattr(transformers, architecture).from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    problems = {kind: sorted(map(str, names)) for kind, names in report.items() if names}
    if problems:
        sys.exit(f"{folder} does not load cleanly: {problems}")
    return model


def load_adapter(base: pathlib.Path, folder: pathlib.Path) -> peft.PeftModel:
    """Refuses an adapter whose tensors don't match its config; PEFT also only warns."""
    model = peft.PeftModel.from_pretrained(load_model(base), folder)
    result = peft.set_peft_model_state_dict(model, peft.load_peft_weights(str(folder)))
    saved = ("lora_", "vera_lambda_", "hada_", "modules_to_save")
    missing = [name for name in result.missing_keys if any(part in name for part in saved)]
    if missing or result.unexpected_keys:
        sys.exit(f"{folder} does not load cleanly: missing {missing}, unexpected {result.unexpected_keys}")
    return model


def logits_of(model: torch.nn.Module, sample: dict) -> torch.Tensor:
    """[U, V] of one sample, run alone and therefore without padding; [1, classes] for a classifier."""
    inputs = {"input_ids": torch.tensor([sample["source"]])}
    if model.config.is_encoder_decoder:
        inputs["labels"] = torch.tensor([sample["labels"]])
    with torch.no_grad():
        logits = model.eval()(**inputs).logits
    return logits[0] if logits.dim() == 3 else logits


def largest_error(model: torch.nn.Module, samples: list[dict], ours: dict[str, torch.Tensor]) -> float:
    """The largest relative L2 error of any sample's logits."""
    worst = 0.0
    for i, sample in enumerate(samples):
        theirs, own = logits_of(model, sample).double(), ours[f"logits_{i}"].double()
        if own.shape != theirs.shape:
            sys.exit(f"logits_{i} is {list(own.shape)}, expected {list(theirs.shape)}")
        error = ((own - theirs).norm() / theirs.norm()).item()
        worst = max(worst, error if error == error else float("inf"))
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True)
    parser.add_argument("--adapter", type=pathlib.Path)
    parser.add_argument("--samples", type=pathlib.Path, required=True)
    parser.add_argument("--logits", type=pathlib.Path, required=True)
    parser.add_argument("--tolerance", type=float, default=1e-5)
    arguments = parser.parse_args()

    samples, ours = json.loads(arguments.samples.read_text())["samples"], load_file(arguments.logits)
    if not samples or len(samples) != len(ours):
        sys.exit(f"there are {len(samples)} samples, but logits of {len(ours)}")
    if arguments.adapter is None:
        errors = {"model": largest_error(load_model(arguments.model), samples, ours)}
    else:
        model = load_adapter(arguments.model, arguments.adapter)
        errors = {"adapter": largest_error(model, samples, ours)}
        errors["adapter, merged"] = largest_error(model.merge_and_unload(safe_merge=True), samples, ours)
    for name, error in errors.items():
        print(f"{name}: largest relative L2 error of logits {error:.2e} over {len(samples)} samples")
    return int(max(errors.values()) > arguments.tolerance)


if __name__ == "__main__":
    sys.exit(main())
