"""Writes weighted/: adapters, and what PEFT's add_weighted_adapter makes of several of them. README.md lists the files."""

import json
import pathlib
import shutil
import warnings

import peft
import torch
from golden_folder import GOLDEN
from golden_t5 import write_json, write_tensors
from make_peft import GPT2, PAIRS, TEXT, V1_0, load
from peft.utils import merge_utils

FOLDER = GOLDEN / "weighted"
START = dict(init_lora_weights=False)

# name: folder of the base, task, configuration
ADAPTERS = {
    "plain": (V1_0, PAIRS, peft.LoraConfig(**START, r=3, lora_alpha=5, target_modules=["q", "v"])),
    "wider": (V1_0, PAIRS, peft.LoraConfig(**START, r=3, lora_alpha=7, target_modules=["v", "wo"])),
    "rslora": (V1_0, PAIRS, peft.LoraConfig(**START, r=2, lora_alpha=4, target_modules=["q"], use_rslora=True)),
    "patterns": (V1_0, PAIRS, peft.LoraConfig(
        **START, r=2, lora_alpha=3, target_modules=["q", "wo"], rank_pattern={"wo": 4}, alpha_pattern={"SelfAttention.q": 9})),
    "gpt2_a": (GPT2, TEXT, peft.LoraConfig(
        **START, r=2, lora_alpha=3, target_modules=["c_attn", "wte"], fan_in_fan_out=True)),
    "gpt2_b": (GPT2, TEXT, peft.LoraConfig(
        **START, r=2, lora_alpha=5, target_modules=["c_attn", "c_fc"], fan_in_fan_out=True)),
}
# adapters, weights, arguments of add_weighted_adapter
CASES = {
    "linear": (["plain", "wider"], [0.7, 0.3], dict(combination_type="linear")),
    "negative": (["plain", "wider"], [0.7, -0.4], dict(combination_type="linear")),
    "single": (["plain"], [0.5], dict(combination_type="svd")),  # of one adapter, PEFT always makes the linear sum
    "cat": (["plain", "wider", "rslora"], [0.7, 0.3, -1.5], dict(combination_type="cat")),
    "cat_patterns": (["plain", "patterns"], [0.7, 0.3], dict(combination_type="cat")),
    "svd": (["plain", "wider", "rslora"], [0.7, 0.3, 0.5], dict(combination_type="svd")),
    "svd_rank": (["plain", "patterns"], [0.7, 0.3], dict(combination_type="svd", svd_rank=2)),
    "ties": (["plain", "wider"], [0.7, 0.3], dict(combination_type="ties", density=0.5)),
    "ties_frequency": (["plain", "wider"], [0.7, 0.3], dict(
        combination_type="ties", density=0.5, majority_sign_method="frequency")),
    "ties_svd": (["plain", "wider", "rslora"], [0.7, 0.3, 1.0], dict(combination_type="ties_svd", density=0.4, svd_rank=4)),
    "magnitude_prune": (["plain", "wider"], [0.7, 0.3], dict(combination_type="magnitude_prune", density=0.3)),
    "magnitude_prune_svd": (["plain", "rslora"], [0.7, 0.3], dict(combination_type="magnitude_prune_svd", density=0.3)),
    "gpt2_linear": (["gpt2_a", "gpt2_b"], [0.6, 0.4], dict(combination_type="linear")),
    "gpt2_svd": (["gpt2_a", "gpt2_b"], [0.6, 0.4], dict(combination_type="svd", svd_rank=3)),
}
RANDOM = ("dare_linear", "dare_ties")  # with the masks that were drawn


def save_adapter(name: str) -> None:
    base, task, settings = ADAPTERS[name]
    torch.manual_seed(len(name))
    settings.task_type = task
    model = peft.get_peft_model(load(base, task), settings)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(0.1 * torch.randn_like(parameter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(FOLDER / name)
    (FOLDER / name / "README.md").unlink()
    (FOLDER / name / "adapter_model.safetensors").chmod(0o644)
    path = FOLDER / name / "adapter_config.json"
    saved = json.loads(path.read_text())
    saved["base_model_name_or_path"] = None
    saved["target_modules"].sort()
    path.write_text(json.dumps(saved, indent=2, sort_keys=True))


def combine(name: str) -> tuple[dict, dict[str, torch.Tensor]]:
    """A and B of every layer; of a decomposition, whose vectors may have either sign, the product B A."""
    names, weights, arguments = CASES[name]
    base, task, _ = ADAPTERS[names[0]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = peft.PeftModel.from_pretrained(load(base, task), FOLDER / names[0], adapter_name=names[0])
        for other in names[1:]:
            model.load_adapter(FOLDER / other, adapter_name=other)
        model.add_weighted_adapter(names, weights, "combined", **arguments)
        state = peft.get_peft_model_state_dict(model, adapter_name="combined", save_embedding_layers=False)
    settings = model.peft_config["combined"]
    tensors = {key: value.detach().float().contiguous() for key, value in state.items() if ".lora_" in key}
    if len(names) > 1 and "svd" in arguments["combination_type"]:
        tensors = {key.split(".lora_")[0] + ".product": tensors[key.replace("_A", "_B")] @ value
                   for key, value in tensors.items() if "_A" in key}
    return {"base": str(base.relative_to(GOLDEN)), "adapters": names, "weights": weights, **arguments, "r": settings.r,
            "target_modules": sorted(settings.target_modules)}, tensors


def random_pruning(rule: str) -> dict[str, torch.Tensor]:
    """Three tensors combined with weights 0.5, -0.25, 2 and density 0.6."""
    torch.manual_seed(3)
    given = [torch.randn(5, 7) for _ in range(3)]
    masks, bernoulli = [], torch.bernoulli
    torch.bernoulli = lambda chances: masks.append(bernoulli(chances)) or masks[-1]
    result = getattr(merge_utils, rule)(given, torch.tensor([0.5, -0.25, 2.0]), 0.6)
    torch.bernoulli = bernoulli
    return {f"{rule}.given": torch.stack(given), f"{rule}.masks": torch.stack(masks), f"{rule}.result": result}


if __name__ == "__main__":
    torch.set_num_threads(1)
    shutil.rmtree(FOLDER, ignore_errors=True)
    for name in ADAPTERS:
        save_adapter(name)
    expected, tensors = {}, {}
    for name in CASES:
        expected[name], values = combine(name)
        tensors.update({f"{name}.{key}": value for key, value in values.items()})
    for rule in RANDOM:
        tensors.update(random_pruning(rule))
    write_json(FOLDER / "expected.json", expected)
    write_tensors(FOLDER / "expected.safetensors", tensors)
    print(len(tensors), "tensors")
