"""Writes muon.json: values of small tensors after some updates by torch.optim.Muon, with AdamW for all but matrices."""

import json
import pathlib

import torch

UPDATES = 12
RATE = 1e-2
SHAPES = {"wide.weight": (5, 17), "tall.weight": (24, 6), "square.weight": (8, 8), "embed_tokens.weight": (9, 4),
          "lm_head.weight": (9, 4), "b.weight": (3, 4, 5), "c.weight": (1, 6), "d.bias": (7,)}
MATRICES = ("wide.weight", "tall.weight", "square.weight")
RUNS = [("", 0.0, {}),
        ("", 0.1, {}),
        ("adjust_lr_fn=match_rms_adamw", 0.1, {"adjust_lr_fn": "match_rms_adamw"}),
        ("momentum=0.8, nesterov=false, ns_steps=3, eps=1e-3",
         0.1, {"momentum": 0.8, "nesterov": False, "ns_steps": 3, "eps": 1e-3})]


def rounded(tensor, digits):
    return [float(f"{x:.{digits}g}") for x in tensor.detach().flatten().tolist()]


def drawn(generator):
    return {name: torch.tensor(rounded(torch.randn(shape, generator=generator), 4)).view(shape)
            for name, shape in SHAPES.items()}


def run(weight_decay, arguments, first, gradients):
    parameters = {name: torch.nn.Parameter(value.clone()) for name, value in first.items()}
    others = [p for name, p in parameters.items() if name not in MATRICES and "bias" not in name]
    optimizers = [
        torch.optim.Muon([parameters[name] for name in MATRICES], weight_decay=weight_decay, **arguments),
        torch.optim.AdamW([{"params": others, "weight_decay": weight_decay},
                           {"params": [parameters["d.bias"]], "weight_decay": 0.0}])]
    for i, update in enumerate(gradients):
        for name, parameter in parameters.items():
            parameter.grad = update[name].clone()
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = RATE * (i + 1) / UPDATES
            optimizer.step()
    return {name: rounded(p, 8) for name, p in parameters.items()}


def main():
    generator = torch.Generator().manual_seed(5)
    first = drawn(generator)
    gradients = [drawn(generator) for _ in range(UPDATES)]
    file = {"learning_rate": RATE, "updates": UPDATES, "shapes": SHAPES,
            "start": {name: rounded(value, 4) for name, value in first.items()},
            "gradients": [{name: rounded(value, 4) for name, value in update.items()} for update in gradients],
            "runs": [{"optim": "muon", "optim_args": text, "weight_decay": decay,
                      "values": run(decay, arguments, first, gradients)} for text, decay, arguments in RUNS]}
    pathlib.Path(__file__).with_name("muon.json").write_text(json.dumps(file) + "\n")


if __name__ == "__main__":
    main()
