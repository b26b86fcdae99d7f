"""Writes all_dtypes.safetensors: one small tensor of every torch dtype, as the safetensors package writes it.

Made with torch 2.11.0 and safetensors 0.8.0. tests/tensorfile/safetensors_writer_test.cpp writes the same tensors.
"""

import pathlib

import torch
from safetensors.torch import save_file

DTYPES = {
    "bool": torch.bool,
    "u8": torch.uint8,
    "i8": torch.int8,
    "f8_e5m2": torch.float8_e5m2,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e8m0": torch.float8_e8m0fnu,
    "f8_e4m3fnuz": torch.float8_e4m3fnuz,
    "f8_e5m2fnuz": torch.float8_e5m2fnuz,
    "i16": torch.int16,
    "u16": torch.uint16,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i32": torch.int32,
    "u32": torch.uint32,
    "f32": torch.float32,
    "c64": torch.complex64,
    "f64": torch.float64,
    "i64": torch.int64,
    "u64": torch.uint64,
}


def tensor(dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """Byte i of every tensor is (7 i + 13) mod 256; for booleans, i mod 2."""
    elements = 1
    for size in shape:
        elements *= size
    if elements == 0:
        return torch.empty(shape, dtype=dtype)
    count = elements * torch.empty(0, dtype=dtype).element_size()
    values = [i % 2 if dtype == torch.bool else (7 * i + 13) % 256 for i in range(count)]
    return torch.frombuffer(bytearray(values), dtype=torch.uint8).view(dtype).reshape(shape)


tensors = {name: tensor(dtype, (3, 1)) for name, dtype in DTYPES.items()}
tensors["a scalar"] = tensor(torch.float32, ())
tensors["empty"] = tensor(torch.float32, (2, 0))
tensors['ünï "quoted" \\ \t'] = tensor(torch.uint8, (2,))
save_file(tensors, pathlib.Path(__file__).with_name("all_dtypes.safetensors"), metadata={"format": "pt"})
