"""Writes adamw_8bit.safetensors: parameters and states after some updates of bitsandbytes' 8-bit AdamW.

bitsandbytes 0.50.0 has no 8-bit optimizer for the CPU, but a reference in torch next to its Triton kernels, which is
what runs here. Its small tensors and embeddings have fp32 state, as under transformers.Trainer.
"""

import os
import pathlib

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # the reference is decorated with torch.compile

import bitsandbytes as bnb
import torch
from bitsandbytes.backends.triton.kernels_optim import optimizer_update_8bit_blockwise_pytorch
from bitsandbytes.functional import create_dynamic_map
from safetensors.torch import save_file

UPDATES = 10
RATE, DECAY, BETAS, EPSILON = 1e-2, 0.1, (0.9, 0.999), 1e-8
BLOCK = 256
IN_8_BITS = {"q.weight": (17, 259), "v.weight": (3, 8, 256)}
IN_FP32 = {"embed_tokens.weight": (64, 65), "small.weight": (8, 16)}


class Dice:
    """Numbers from -1 to 1 in steps of 1/1000, the same in C++."""

    def __init__(self):
        self.state = 7

    def draw(self, shape, exponents):
        """Block i is scaled by 2^-(i % exponents); every 97th number is 0."""
        values = []
        for i in range(torch.Size(shape).numel()):
            self.state = (self.state * 1664525 + 1013904223) % 2**32
            value = ((self.state >> 8) % 2001 - 1000) / 1000
            values.append(0.0 if i % 97 == 0 else value * 2.0 ** -(i // BLOCK % exponents))
        return torch.tensor(values, dtype=torch.float32).view(shape)


def updated_8bit(p, g, state, step, rate, maps):
    optimizer_update_8bit_blockwise_pytorch(
        p, g, state["exp_avg"], state["exp_avg_sq"], *BETAS, 0.0, 0.0, EPSILON, step, rate, *maps,
        state["exp_avg_absmax"], state["exp_avg_sq_absmax"], DECAY, 1.0, False, optimizer_name="adam")


def main():
    dice = Dice()
    shapes = IN_8_BITS | IN_FP32
    parameters = {name: torch.nn.Parameter(dice.draw(shape, 1)) for name, shape in shapes.items()}
    maps = create_dynamic_map(signed=True), create_dynamic_map(signed=False)
    states = {}
    for name in IN_8_BITS:
        p = parameters[name]
        blocks = -(-p.numel() // BLOCK)
        states[name] = {"exp_avg": torch.zeros_like(p, dtype=torch.uint8).detach(),
                        "exp_avg_sq": torch.zeros_like(p, dtype=torch.uint8).detach(),
                        "exp_avg_absmax": torch.zeros(blocks), "exp_avg_sq_absmax": torch.zeros(blocks)}
    fp32 = bnb.optim.AdamW([parameters[name] for name in IN_FP32], betas=BETAS, eps=EPSILON, weight_decay=DECAY)
    for update in range(UPDATES):
        rate = RATE * (update + 1) / UPDATES
        gradients = {name: dice.draw(shape, 12) for name, shape in shapes.items()}
        gradients["v.weight"].view(-1)[5 * BLOCK:6 * BLOCK] = 0  # a block without gradients
        for name in IN_8_BITS:
            updated_8bit(parameters[name], gradients[name], states[name], update + 1, rate, maps)
        for name in IN_FP32:
            parameters[name].grad = gradients[name]
        fp32.param_groups[0]["lr"] = rate
        fp32.step()
    tensors = {f"value/{name}": p.detach().contiguous() for name, p in parameters.items()}
    tensors |= {f"{kind}/{name}": value for name, state in states.items() for kind, value in state.items()}
    save_file(tensors, pathlib.Path(__file__).with_name("adamw_8bit.safetensors"))


if __name__ == "__main__":
    main()
