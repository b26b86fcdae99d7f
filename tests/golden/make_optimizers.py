"""Writes optimizers.json: values of small tensors after some updates by torch's, transformers' and PEFT's optimizers.

Lion is implemented from its paper (Chen et al. 2023, algorithm 2), because transformers uses bitsandbytes for it, which
needs a GPU.
"""

import json
import pathlib

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from peft.optimizers import create_loraplus_optimizer
from transformers.optimization import Adafactor

UPDATES = 15
RATE = 1e-2
SHAPES = {"a.weight": (5, 7), "b.weight": (3, 4, 5), "c.weight": (1, 6), "d.weight": (9,), "a.bias": (7,)}


def start(generator):
    return {name: torch.tensor(rounded(torch.randn(shape, generator=generator), 4)).view(shape)
            for name, shape in SHAPES.items()}


def gradients(generator):
    """Gradients of different magnitudes, with a row of zeros, and one tensor that is zero in the first update."""
    scale = {"a.weight": 1.0, "b.weight": 1e-3, "c.weight": 30.0, "d.weight": 0.1, "a.bias": 1.0}
    all_updates = []
    for update in range(UPDATES):
        one = {name: torch.randn(shape, generator=generator) * scale[name] for name, shape in SHAPES.items()}
        one["a.weight"][2] = 0
        if update == 0:
            one["d.weight"].zero_()
        all_updates.append({name: torch.tensor(rounded(value, 4)).view(value.shape) for name, value in one.items()})
    return all_updates


class Lion(torch.optim.Optimizer):
    def __init__(self, groups, lr, betas):
        super().__init__(groups, {"lr": lr, "betas": betas, "weight_decay": 0.0})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("m", np.zeros(p.shape, np.float32))
                g, x = p.grad.numpy(), p.numpy()
                direction = np.sign(beta1 * m + (1 - beta1) * g)
                p.copy_(torch.from_numpy(x - group["lr"] * (direction + group["weight_decay"] * x)))
                self.state[p]["m"] = (beta2 * m + (1 - beta2) * g).astype(np.float32)


OPTIMIZERS = [
    ("adamw_torch", "", lambda groups: torch.optim.AdamW(groups, lr=RATE)),
    ("adamw_torch_fused", "", lambda groups: torch.optim.AdamW(groups, lr=RATE, fused=True)),
    ("sgd", "", lambda groups: torch.optim.SGD(groups, lr=RATE)),
    ("sgd", "momentum=0.9", lambda groups: torch.optim.SGD(groups, lr=RATE, momentum=0.9)),
    ("sgd", "momentum=0.8, dampening=0.3", lambda groups: torch.optim.SGD(groups, lr=RATE, momentum=0.8, dampening=0.3)),
    ("sgd", "momentum=0.9,nesterov=True", lambda groups: torch.optim.SGD(groups, lr=RATE, momentum=0.9, nesterov=True)),
    ("rmsprop", "", lambda groups: torch.optim.RMSprop(groups, lr=RATE)),
    ("rmsprop", "momentum=0.7, alpha=0.9, eps=1e-3",
     lambda groups: torch.optim.RMSprop(groups, lr=RATE, momentum=0.7, alpha=0.9, eps=1e-3)),
    ("rmsprop", "alpha=0.9, eps=1e-2, centered=true",
     lambda groups: torch.optim.RMSprop(groups, lr=RATE, alpha=0.9, eps=1e-2, centered=True)),
    ("adagrad", "", lambda groups: torch.optim.Adagrad(groups, lr=RATE)),
    ("adagrad", "lr_decay=0.1, eps=1e-4", lambda groups: torch.optim.Adagrad(groups, lr=RATE, lr_decay=0.1, eps=1e-4)),
    ("lion", "", lambda groups: Lion(groups, RATE, (0.9, 0.999))),
    ("adafactor", "", lambda groups: Adafactor(groups, lr=RATE, scale_parameter=False, relative_step=False)),
]


def run(make, weight_decay, first, updates):
    """Values after the last update; the learning rate changes between updates."""
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in first.items()}
    decayed = [p for name, p in parameters.items() if "bias" not in name]
    rest = [p for name, p in parameters.items() if "bias" in name]
    optimizer = make([{"params": decayed, "weight_decay": weight_decay}, {"params": rest, "weight_decay": 0.0}])
    for i, update in enumerate(updates):
        for group in optimizer.param_groups:
            group["lr"] = RATE * (i + 1) / UPDATES
        for name, parameter in parameters.items():
            parameter.grad = update[name].clone()
        optimizer.step()
    return {name: rounded(p, 8) for name, p in parameters.items()}


def rounded(tensor, digits):
    return [float(f"{x:.{digits}g}") for x in tensor.detach().flatten().tolist()]


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(6, 4)
        self.first = torch.nn.Linear(4, 3)
        self.norm = torch.nn.LayerNorm(3)
        self.head = torch.nn.Linear(3, 2)

    def forward(self, ids):
        return self.head(self.norm(self.first(self.embed(ids))))


def lora_plus_groups():
    """The learning rate and weight decay that PEFT assigns to every parameter, by trainer's name."""
    config = LoraConfig(r=2, target_modules=["embed", "first"], modules_to_save=["head", "norm"], use_dora=False,
                        bias="lora_only", lora_alpha=4)
    model = get_peft_model(Small(), config)
    optimizer = create_loraplus_optimizer(model, torch.optim.SGD, lr=RATE, loraplus_lr_ratio=16.0,
                                          loraplus_weight_decay=0.1)
    rules = {id(p): (group["lr"], group["weight_decay"]) for group in optimizer.param_groups for p in group["params"]}
    found = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        rate, decay = rules[id(parameter)]
        ours = name.removeprefix("base_model.model.").replace(".default", "").replace(".modules_to_save", "")
        ours = ours.replace(".base_layer", "")
        found.append({"name": ours, "shape": list(parameter.shape), "lr": rate, "weight_decay": decay})
    return {"learning_rate": RATE, "ratio": 16.0, "weight_decay": 0.1, "parameters": found}


def main():
    generator = torch.Generator().manual_seed(5)
    first, updates = start(generator), gradients(generator)
    runs = [{"optim": name, "optim_args": args, "weight_decay": decay, "values": run(make, decay, first, updates)}
            for name, args, make in OPTIMIZERS for decay in ((0.1,) if args else (0.0, 0.1))]
    golden = {"learning_rate": RATE, "updates": UPDATES, "shapes": {k: list(v) for k, v in SHAPES.items()},
              "start": {name: rounded(value, 4) for name, value in first.items()},
              "gradients": [{name: rounded(value, 4) for name, value in one.items()} for one in updates],
              "lora_plus": lora_plus_groups(), "runs": runs}
    path = pathlib.Path(__file__).with_name("optimizers.json")
    path.write_text(json.dumps(golden, separators=(",", ":")).replace('{"optim"', '\n{"optim"') + "\n")


main()
