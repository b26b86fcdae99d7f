"""Writes tables.json: T5's relative position buckets and the learning-rate schedules, as transformers computes them."""

import pathlib

import torch
from golden_t5 import write_json
from transformers import get_scheduler
from transformers.models.t5.modeling_t5 import T5Attention

BUCKETS = [(8, 20), (32, 128)]  # buckets, max distance
SCHEDULES = [(name, warmup, total) for name in ("linear", "cosine", "constant_with_warmup", "constant")
             for warmup, total in ((0, 10), (2, 10), (3, 25), (10, 10))]


def buckets(count: int, max_distance: int, bidirectional: bool) -> dict:
    """The bucket of every relative position (key minus query), starting at `first`."""
    first = -2 * max_distance
    positions = torch.arange(first, 2 * max_distance + 1)
    table = T5Attention._relative_position_bucket(positions, bidirectional, count, max_distance)
    return {"num_buckets": count, "max_distance": max_distance, "bidirectional": bidirectional,
            "first_position": first, "buckets": table.tolist()}


def schedule(name: str, warmup: int, total: int) -> dict:
    """The factor on the learning rate before updates 0, 1, ..., and for two updates past the end."""
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
    scheduler = get_scheduler(name, optimizer, warmup, total)
    factors = []
    for _ in range(total + 2):
        factors.append(scheduler.get_last_lr()[0])
        optimizer.step()
        scheduler.step()
    return {"lr_scheduler_type": name, "warmup_steps": warmup, "updates": total, "factors": factors}


write_json(pathlib.Path(__file__).with_name("tables.json"), {
    "position_buckets": [buckets(*sizes, bidirectional) for sizes in BUCKETS for bidirectional in (True, False)],
    "schedules": [schedule(*row) for row in SCHEDULES],
})
