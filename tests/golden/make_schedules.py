"""Writes schedules.json: the learning rate of transformers' schedules at each update of a short run."""

import json
import pathlib

import torch
from transformers.optimization import get_scheduler

SETTINGS = [
    ("linear", 0, 50, {}), ("linear", 7, 50, {}), ("cosine", 5, 40, {}), ("cosine", 5, 40, {"num_cycles": 1.5}),
    ("constant", 0, 20, {}), ("constant_with_warmup", 6, 20, {}),
    ("cosine_with_restarts", 4, 40, {}), ("cosine_with_restarts", 4, 40, {"num_cycles": 3}),
    ("polynomial", 5, 40, {}), ("polynomial", 5, 40, {"lr_end": 1e-4, "power": 2.5}),
    ("inverse_sqrt", 10, 60, {}), ("inverse_sqrt", 0, 30, {}), ("inverse_sqrt", 10, 60, {"timescale": 25}),
    ("cosine_with_min_lr", 5, 40, {"min_lr": 1e-4}), ("cosine_with_min_lr", 5, 40, {"min_lr_rate": 0.2}),
    ("cosine_warmup_with_min_lr", 5, 40, {"min_lr": 1e-4}), ("cosine_warmup_with_min_lr", 0, 30, {"min_lr_rate": 0.2}),
    ("cosine_warmup_with_min_lr", 5, 40, {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2}),
    ("cosine_warmup_with_min_lr", 1, 30, {"min_lr_rate": 0.1, "warmup_lr_rate": 0.2, "num_cycles": 1.5}),
    ("warmup_stable_decay", 5, 40, {"num_decay_steps": 10}),
    ("warmup_stable_decay", 5, 40, {"num_decay_steps": 10, "num_stable_steps": 15, "decay_type": "linear",
                                    "min_lr_ratio": 0.1}),
    ("warmup_stable_decay", 8, 40, {"num_decay_steps": 12, "warmup_type": "cosine", "decay_type": "1-sqrt"}),
    ("warmup_stable_decay", 8, 40, {"num_decay_steps": 12, "warmup_type": "1-sqrt", "min_lr_ratio": 0.05,
                                    "num_cycles": 1.0}),
]
BASE = 2e-3


def rates(name, warmup, total, more):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=BASE)
    schedule = get_scheduler(name, optimizer, num_warmup_steps=warmup, num_training_steps=total,
                             scheduler_specific_kwargs=more)
    found = []
    for _ in range(total + 3):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        schedule.step()
    return found


cases = [{"name": name, "warmup": warmup, "total": total, "kwargs": more, "rates": rates(name, warmup, total, more)}
         for name, warmup, total, more in SETTINGS]
path = pathlib.Path(__file__).with_name("schedules.json")
path.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n")
