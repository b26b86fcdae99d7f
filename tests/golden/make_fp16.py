"""Writes fp16.json: ten updates under torch.autocast("cpu", float16) with torch.amp.GradScaler, the same updates in
fp64, and GradScaler's scales for a given sequence of overflows."""

import json
import random

import torch
from golden_folder import GOLDEN
from golden_t5 import load, padded, write_json
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM

UPDATES = 10
LEARNING_RATE, MAX_GRAD_NORM = 2e-3, 1.0
MODELS = ["t5/bf16_v1_0", "t5/bf16_v1_1", "llama/llama"]


def load_llama(folder) -> torch.nn.Module:
    return AutoModelForCausalLM.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()


def t5_loss(model: torch.nn.Module, samples: list[dict]) -> torch.Tensor:
    return model(**padded(samples), use_cache=False).loss


def causal_loss(model: torch.nn.Module, samples: list[dict]) -> torch.Tensor:
    """Runs each sample alone; labels are already shifted."""
    count = sum(label != -100 for sample in samples for label in sample["labels"])
    losses = []
    for sample in samples:
        logits = model(input_ids=torch.tensor([sample["source"]]), use_cache=False).logits[0]
        losses.append(cross_entropy(logits.double() if logits.dtype == torch.double else logits.float(),
                                    torch.tensor(sample["labels"]), reduction="sum"))
    return sum(losses) / count


def train(model: torch.nn.Module, loss_of, samples: list[dict], autocast: bool, init_scale: float) -> dict:
    """Makes UPDATES updates on the same batch; the loss of an update is the loss before it."""
    scaler = torch.amp.GradScaler("cpu", init_scale=init_scale, enabled=autocast)
    optimizer = torch.optim.AdamW(model.parameters(), lr=LEARNING_RATE, weight_decay=0.0)
    losses, scales = [], []
    for _ in range(UPDATES):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16, enabled=autocast):
            loss = loss_of(model, samples)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_GRAD_NORM)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
        scales.append(scaler.get_scale())
    return {"losses": losses, "scales": scales}


def relative_error(losses: list[float], exact: list[float]) -> float:
    a, b = torch.tensor(losses, dtype=torch.double), torch.tensor(exact, dtype=torch.double)
    return ((a - b).norm() / b.norm()).item()


def make_model(name: str) -> dict:
    folder = GOLDEN / name
    if name.startswith("t5"):
        load_model, loss_of = load, t5_loss
        samples = json.loads((folder / "batches.json").read_text())["batches"][0]["samples"]
    else:
        load_model, loss_of = load_llama, causal_loss
        samples = json.loads((folder / "batch.json").read_text())["samples"]
    exact = train(load_model(folder).double(), loss_of, samples, False, 1.0)["losses"]
    cast = train(load_model(folder), loss_of, samples, True, 2.0**16)
    assert cast["scales"] == [2.0**16] * UPDATES, cast["scales"]
    # Starts from a scale that is far too large, so the first updates are skipped.
    high = train(load_model(folder), loss_of, samples, True, 2.0**24)
    print(name, exact[0], exact[-1], relative_error(cast["losses"], exact), [torch.tensor(s).log2().item() for s in high["scales"]])
    return {"losses": exact, "autocast_error": relative_error(cast["losses"], exact), "scales_from_2_24": high["scales"]}


def make_scaler(growth_interval: int) -> dict:
    """Uses a parameter whose gradient is set to infinity in the updates that overflow."""
    random.seed(3)
    overflows = [random.random() < (0.6 if i // 20 % 2 else 0.12) for i in range(120)]
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=0.0)
    scaler = torch.amp.GradScaler("cpu", growth_interval=growth_interval, init_scale=2.0**40)
    scales = []
    for overflowed in overflows:
        scaler.scale(parameter.sum()).backward()
        if overflowed:
            parameter.grad.fill_(float("inf"))
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        scales.append(scaler.get_scale())
    return {"initial_scale_power": 40, "growth_interval": growth_interval, "overflows": [int(o) for o in overflows],
            "powers": [int(torch.tensor(scale).log2().item()) for scale in scales]}


if __name__ == "__main__":
    torch.set_num_threads(1)
    write_json(GOLDEN / "fp16.json", {
        "updates": UPDATES, "learning_rate": LEARNING_RATE, "max_grad_norm": MAX_GRAD_NORM,
        "models": {name: make_model(name) for name in MODELS},
        "grad_scaler": [make_scaler(interval) for interval in (1, 5)]})
