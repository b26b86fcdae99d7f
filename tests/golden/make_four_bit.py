"""Writes four_bit.safetensors: a matrix, and what bitsandbytes' CPU build makes of it in each 4-bit format."""

import os
import pathlib

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # bitsandbytes compiles its CPU code with torch.compile

import torch
from bitsandbytes.functional import dequantize_4bit, quantize_4bit
from safetensors.torch import save_file

ROWS, COLUMNS = 67, 320  # 335 blocks of 64 values, in a whole group of 256 and a part of one


def values() -> torch.Tensor:
    """Rows of different sizes; some are 0, some have values on the bounds between codes."""
    drawn = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))
    drawn *= torch.rand(ROWS, 1, generator=torch.Generator().manual_seed(1)) * 4
    drawn[3] = 0
    drawn[5, :64] = 0
    drawn[7] = torch.linspace(-1, 1, COLUMNS)
    drawn[8] = torch.arange(COLUMNS) % 13 / 12
    return drawn.bfloat16().float()


def main() -> None:
    tensors = {"values": values()}
    for kind in ("nf4", "fp4"):
        for double in (False, True):
            codes, state = quantize_4bit(tensors["values"], quant_type=kind, compress_statistics=double)
            name = kind + ("_double" if double else "")
            tensors[f"{name}.codes"] = codes.view(-1, 32).clone()
            tensors[f"{name}.scales"] = state.absmax.clone()
            tensors[f"{name}.decoded"] = dequantize_4bit(codes, state)
            if double:
                tensors[f"{name}.groups"] = state.state2.absmax.clone()
                tensors[f"{name}.mean"] = state.offset.view(1).clone()
    for name in [n for n in tensors if n.endswith("decoded")]:
        tensors[name] = tensors[name].view(-1, 64)[::16].clone()  # every 16th block is enough
    tensors["values"] = tensors["values"].bfloat16()
    save_file(tensors, pathlib.Path(__file__).with_name("four_bit.safetensors"))


if __name__ == "__main__":
    main()
