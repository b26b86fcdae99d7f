"""Writes t5/v1_0 and t5/v1_1: the values of transformers and PEFT for two tiny T5 models. README.md lists the files."""

import json
import math
import pathlib

import peft
import torch
from golden_t5 import (FOLDER, config, load, make_samples, padded, sample_logits, target_tokens, weights, write_json,
                       write_tensors)
from transformers import Trainer, get_scheduler

SIZES = dict(d_model=20, d_kv=6, num_heads=3, d_ff=28, num_layers=2, decoder_layers=3, vocab_size=53)
UPDATES = 10
OPTIMIZER = dict(learning_rate=5e-3, weight_decay=0.01, betas=[0.9, 0.999], epsilon=1e-8, max_grad_norm=1.0)

# T5 v1.1's folders use the older way to say "untied and unscaled" (tie_word_embeddings false).
MODELS = {
    "v1_0": dict(
        config=config(**SIZES, feed_forward_proj="relu", relative_attention_num_buckets=8,
                      relative_attention_max_distance=20),
        seed=7,
        lengths=[[(9, 4), (3, 7), (27, 1), (14, 25)], [(5, 3), (12, 6), (1, 2)],
                 [(8, 5), (2, 9), (21, 3), (6, 6), (4, 1)]],
        schedule=dict(name="linear", warmup_steps=0),
        loras={
            "lora_qv": dict(lora_alpha=8, target_modules=["q", "v"]),
            "lora_all": dict(lora_alpha=8, target_modules=["q", "k", "v", "o", "wi", "wo"]),
        },
        merged="decoder.block.1.layer.1.EncDecAttention.v",
    ),
    "v1_1": dict(
        config=config(**SIZES, feed_forward_proj="gated-gelu", relative_attention_num_buckets=32,
                      relative_attention_max_distance=128, tie_word_embeddings=False),
        seed=26,
        lengths=[[(11, 5), (150, 3), (4, 140)], [(7, 8), (30, 2), (2, 4), (16, 6)], [(5, 6), (19, 11)]],
        schedule=dict(name="linear", warmup_steps=2),
        loras={
            "lora_saved_head": dict(lora_alpha=3, use_rslora=True, modules_to_save=["lm_head"],
                                    target_modules=["q", "k", "v", "o", "wi_0", "wi_1", "wo"]),
        },
        merged="encoder.block.1.layer.1.DenseReluDense.wi_1",
    ),
}


def make_batches(model: dict) -> list[list[dict]]:
    generator = torch.Generator().manual_seed(100 + model["seed"])
    batches = [make_samples(model["config"]["vocab_size"], lengths, generator) for lengths in model["lengths"]]
    batches[0][0]["labels"][1] = -100  # one label in the middle doesn't count in the loss
    return batches


def loss_of(model: torch.nn.Module, samples: list[dict]) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean over the batch's target tokens, which is transformers' own loss of one batch, and the logits."""
    output = model(**padded(samples), use_cache=False)
    return output.loss, output.logits


def named_gradients(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Gradients by the names in saved files: those of model weights, or of an adapter folder."""
    return {
        "gradient." + name.replace(".modules_to_save.default", "").replace(".default", ""): parameter.grad.clone()
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }


def train(model: torch.nn.Module, batches: list[list[dict]], schedule: dict) -> dict:
    """Ten AdamW updates with the Trainer's groups; update i uses batch i mod 3, and its loss is the loss before it."""
    decayed = set(Trainer.get_decay_parameter_names(None, model))
    parameters = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        [
            {"params": [p for name, p in parameters if name in decayed], "weight_decay": OPTIMIZER["weight_decay"]},
            {"params": [p for name, p in parameters if name not in decayed], "weight_decay": 0.0},
        ],
        lr=OPTIMIZER["learning_rate"], betas=tuple(OPTIMIZER["betas"]), eps=OPTIMIZER["epsilon"],
    )
    scheduler = get_scheduler(schedule["name"], optimizer, schedule["warmup_steps"], UPDATES)
    record = {"updates": UPDATES, **OPTIMIZER, "lr_scheduler_type": schedule["name"],
              "warmup_steps": schedule["warmup_steps"], "batch_order": [i % len(batches) for i in range(UPDATES)],
              "losses": [], "grad_norms": [], "learning_rates": []}
    for batch in record["batch_order"]:
        optimizer.zero_grad()
        loss, _ = loss_of(model, batches[batch])
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_([p for _, p in parameters], OPTIMIZER["max_grad_norm"])
        record["learning_rates"].append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
        record["losses"].append(loss.item())
        record["grad_norms"].append(norm.item())
    return record


def generate(model: torch.nn.Module, samples: list[dict], new_tokens: int) -> dict:
    """Greedy generation; each sample's new tokens up to and including </s>.

    Uses no cache: transformers 5.17 sizes the decoder's cache by the encoder's number of layers.
    """
    batch = padded(samples)
    output = model.generate(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"], num_beams=1,
                            do_sample=False, max_new_tokens=new_tokens, use_cache=False, output_logits=True,
                            return_dict_in_generate=True)
    rows = [row[1:] for row in output.sequences.tolist()]
    cut = [row[: row.index(1) + 1] if 1 in row else row for row in rows]
    best = torch.stack(output.logits, dim=1).topk(2).values  # [samples, steps, 2]
    margins = [(best[i, : len(row), 0] - best[i, : len(row), 1]).min().item() for i, row in enumerate(cut)]
    assert min(margins) > 1e-3, f"two tokens are almost equally likely: {margins}; use another seed"
    return {"max_new_tokens": new_tokens, "tokens": cut}


def forward_and_backward(model: torch.nn.Module, samples: list[dict]) -> tuple[dict, dict]:
    """Scalars and tensors of the first batch."""
    model.zero_grad()
    loss, logits = loss_of(model, samples)
    loss.backward()
    count, labels = target_tokens(samples), padded(samples)["labels"]
    summed = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
    assert math.isclose(summed.item() / count, loss.item(), rel_tol=1e-6)
    scalars = {"loss_sum": summed.item(), "target_tokens": count, "loss": loss.item()}
    return scalars, {**sample_logits(logits, samples), **named_gradients(model)}


def save_adapter(model: peft.PeftModel, folder: pathlib.Path) -> None:
    """Saves the adapter as PEFT does, except for values that depend on the machine or on the order of a set."""
    model.save_pretrained(folder)
    (folder / "README.md").unlink()
    (folder / "adapter_model.safetensors").chmod(0o644)
    path = folder / "adapter_config.json"
    settings = json.loads(path.read_text())
    settings.update(base_model_name_or_path=None, target_modules=sorted(settings["target_modules"]))
    path.write_text(json.dumps(settings, indent=2, sort_keys=True))


def make_lora(folder: pathlib.Path, base: pathlib.Path, options: dict, batches: list, schedule: dict,
              merged: str) -> None:
    torch.manual_seed(7)
    # init_lora_weights false: B isn't 0, so the adapter changes the output from the start.
    settings = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=4, lora_dropout=0.0, init_lora_weights=False, **options)
    model = peft.get_peft_model(load(base), settings).eval()
    if "modules_to_save" in options:
        with torch.no_grad():  # a copy that differs from the base's
            head = model.base_model.model.lm_head.modules_to_save["default"].weight
            head.add_(0.1 * torch.randn_like(head))
    save_adapter(model, folder)
    scalars, tensors = forward_and_backward(model, batches[0])
    scalars["generation"] = generate(model, batches[0], 10)
    scalars["training"] = train(model, batches, schedule)
    reloaded = peft.PeftModel.from_pretrained(load(base), folder)
    tensors[f"merged.{merged}.weight"] = reloaded.merge_and_unload().get_submodule(merged).weight.detach().clone()
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "expected.json", scalars)
    print(folder.name, scalars["loss"], scalars["training"]["losses"][-1], scalars["generation"]["tokens"])


def make_model(name: str, model: dict) -> None:
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", model["config"])
    # Small embeddings and large branches: otherwise generation with a tied head would repeat the last token.
    untied = name == "v1_1"
    tensors = weights(model["config"], model["seed"], untied, embedding=1.0 if untied else 0.4, branch=2.0)
    write_tensors(folder / "model.safetensors", tensors)
    batches = make_batches(model)
    write_json(folder / "batches.json", {"batches": [{"samples": samples} for samples in batches]})

    scalars, tensors = forward_and_backward(load(folder), batches[0])
    scalars["generation"] = generate(load(folder), batches[0], 10)
    scalars["training"] = train(load(folder), batches, model["schedule"])
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "expected.json", scalars)
    print(name, scalars["loss"], scalars["training"]["losses"][-1], scalars["generation"]["tokens"])
    for lora, options in model["loras"].items():
        make_lora(folder / lora, folder, options, batches, model["schedule"], model["merged"])


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, model in MODELS.items():
        make_model(name, model)
