"""Prints how each tensor of GGUF files, as the package `gguf` reads it, differs from the tensor of a Hugging Face folder
that it stands for: a list of {name in GGUF: [name in the folder, largest difference, largest value]}, as JSON. A name is
null where the other side has no such tensor.

gguf_tensors.py FOLDER FILE…, by a Python with gguf and numpy
"""

import json
import pathlib
import struct
import sys

import gguf
import numpy


def tensors_of(file):
    """(name, values in fp32) of a safetensors file. (Its package has no bf16 without torch, which takes long to load.)"""
    content = file.read_bytes()
    size, = struct.unpack_from("<Q", content)
    for name, about in json.loads(content[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + offset for offset in about["data_offsets"])
        if about["dtype"] == "BF16":
            values = (numpy.frombuffer(content[begin:end], numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = numpy.frombuffer(content[begin:end], {"F32": numpy.float32, "F16": numpy.float16}[about["dtype"]])
        yield name, values.astype(numpy.float32).reshape(about["shape"])


def halves_to_pairs(matrix, heads):
    """Rows of a query or key projection, from rotating halves to rotating neighbors, as llama.cpp's converter does."""
    return matrix.reshape(heads, 2, matrix.shape[0] // heads // 2, *matrix.shape[1:]).swapaxes(1, 2).reshape(matrix.shape)


def expected(name, values, config, architecture):
    """A tensor of the folder as llama.cpp expects it."""
    if architecture == "llama" and ("q_proj" in name or "k_proj" in name):
        heads = config["num_attention_heads"]
        return halves_to_pairs(values, heads if "q_proj" in name else config.get("num_key_value_heads", heads))
    if architecture.startswith("gemma") and name.endswith("norm.weight"):
        return values + 1
    if architecture == "gpt2" and name.endswith("weight") and any(part in name for part in ("c_attn", "c_proj", "c_fc")):
        return values.T
    return values


def differences(folder, file):
    reader = gguf.GGUFReader(file)
    architecture = reader.get_field("general.architecture").contents()
    config = json.loads((pathlib.Path(folder) / "config.json").read_text())
    kinds = {name: kind for kind, name in gguf.MODEL_ARCH_NAMES.items()}
    names = gguf.get_tensor_name_map(kinds[architecture], reader.get_field(f"{architecture}.block_count").contents())
    theirs = {}
    for name, values in tensors_of(pathlib.Path(folder) / "model.safetensors"):
        made = names.get_name(name, try_suffixes=(".weight", ".bias"))
        theirs[made or name] = (name, values)
    found = {}
    for tensor in reader.tensors:
        if tensor.name not in theirs:
            found[tensor.name] = [None, 0, 0]
            continue
        name, values = theirs.pop(tensor.name)
        read = gguf.dequantize(tensor.data, tensor.tensor_type).astype(numpy.float32)
        want = expected(name, values, config, architecture)
        assert read.shape == want.shape, (name, read.shape, want.shape)
        found[tensor.name] = [name, float(numpy.abs(read - want).max()), float(numpy.abs(want).max())]
    found.update({name: [None, 0, 0] for name, _ in theirs.values()})
    return found


if __name__ == "__main__":
    print(json.dumps([differences(sys.argv[1], file) for file in sys.argv[2:]]))
