"""Writes deepspeed_schedules.json: the learning rate of every update under DeepSpeed's own schedules.

Loads only DeepSpeed's lr_schedules.py, with a plain logger in place of its single import from DeepSpeed.
"""

import importlib.util
import logging
import pathlib
import sys
import types

import torch
from golden_t5 import write_json

UPDATES = 60
BASE = 0.5
SETTINGS = [
    ("WarmupLR", {"warmup_num_steps": 10}),
    ("WarmupLR", {"warmup_num_steps": 10, "warmup_type": "linear", "warmup_min_lr": 0.1}),
    ("WarmupLR", {"warmup_num_steps": 1}),
    ("WarmupDecayLR", {"warmup_num_steps": 10, "total_num_steps": 50}),
    ("WarmupDecayLR", {"warmup_num_steps": 7, "total_num_steps": 60, "warmup_type": "linear", "warmup_min_lr": 0.1}),
    ("WarmupDecayLR", {"warmup_num_steps": 20, "total_num_steps": 10}),
    ("WarmupCosineLR", {"warmup_num_steps": 10, "total_num_steps": 50}),
    ("WarmupCosineLR", {"warmup_num_steps": 7, "total_num_steps": 60, "warmup_type": "linear",
                        "warmup_min_ratio": 0.25, "cos_min_ratio": 0.1}),
    ("WarmupCosineLR", {"warmup_num_steps": 20, "total_num_steps": 10}),
]


def load(path: str):
    """lr_schedules.py as a module."""
    stub = types.ModuleType("deepspeed.utils")
    stub.logger = logging.getLogger("deepspeed")
    sys.modules.update({"deepspeed": types.ModuleType("deepspeed"), "deepspeed.utils": stub})
    spec = importlib.util.spec_from_file_location("lr_schedules", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def rates(module, name: str, params: dict) -> dict:
    """Steps the schedule after each update, as DeepSpeed's engine does."""
    if name == "WarmupDecayLR":
        params = {"warmup_max_lr": BASE, **params}
    weight = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.AdamW([weight], lr=BASE)
    schedule = getattr(module, name)(optimizer, **params)
    used = []
    for _ in range(UPDATES):
        used.append(float(optimizer.param_groups[0]["lr"]))
        weight.grad = torch.ones(1)
        optimizer.step()
        schedule.step()
    return {"type": name, "params": params, "rates": used}


if __name__ == "__main__":
    deepspeed = load(sys.argv[1])
    write_json(pathlib.Path(__file__).with_name("deepspeed_schedules.json"),
               {"learning_rate": BASE, "schedules": [rates(deepspeed, *setting) for setting in SETTINGS]})
