"""Lines 167 to 210 of the catalog: the files of models, adapters and checkpoints."""

import ctypes
import ctypes.util
import json
import os
import pickle
import shutil
import struct

from case import CONFIGURATION, DONE, INPUT, Case, NotHere

NAME = "model.safetensors"
CLOSED = "[" * 200_000 + "]" * 200_000


class Tensors:
    """The parts of a safetensors file: the header, as an object or as text, and the bytes after it."""

    def __init__(self, path):
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        self.header = json.loads(content[8:8 + size])
        self.data = content[8 + size:]
        self.names = sorted((name for name in self.header if name != "__metadata__"),
                            key=lambda name: self.header[name]["data_offsets"])

    def first(self):
        return self.header[self.names[0]]

    def bytes(self, text=None):
        text = json.dumps(self.header).encode() if text is None else text
        return struct.pack("<Q", len(text)) + text + self.data

    def text(self):
        return json.dumps(self.header)


def check(place, *changes):
    return ["check", "--config_file", place.job({"model": {"config": None, "path": str(place.folder / "model")}}, *changes)]


def weights(line, what, change, *says, code=INPUT, name=NAME, **more):
    """A valid model whose weights file is what `change(Tensors)` returns: bytes, or parts of them."""
    def make(place):
        path = place.base_model() / NAME
        place.write(path, change(Tensors(path)))
        return check(place)
    return Case(line, what, make, code, ((name,) if code else ()) + says, **more)


def header(line, what, change, *says, **more):
    """The same with the header's text changed: `change(text)`."""
    def changed(tensors):
        text = change(tensors.text())
        return tensors.bytes(text if isinstance(text, bytes) else text.encode())
    return weights(line, what, changed, *says, **more)


def first(line, what, change, *says, **more):
    """The same with the first tensor's entry changed: `change(entry)`."""
    def changed(tensors):
        change(tensors.first())
        return tensors.bytes()
    return weights(line, what, changed, *says, **more)


def setting(key, value):
    return lambda entry: entry.update({key: value})


def own_header(line, what, text, *says, data=b"", **more):
    """A file with the given header and data only."""
    def changed(_):
        content = text() if callable(text) else text
        content = content if isinstance(content, bytes) else content.encode()
        return struct.pack("<Q", len(content)) + content + data
    return weights(line, what, changed, *says, **more)


def length(line, what, size, *says):
    return weights(line, what, lambda tensors: struct.pack("<Q", size) + tensors.bytes()[8:], *says)


def renamed(line, what, to, *says, **more):
    def changed(tensors):
        tensors.header[to] = tensors.header.pop(tensors.names[0])
        return tensors.bytes()
    return weights(line, what, changed, *says, **more)


def overlap(tensors):
    sizes = {name: entry["data_offsets"][1] - entry["data_offsets"][0] for name, entry in tensors.header.items()
             if name in tensors.names}
    one, other = next((a, b) for a in tensors.names for b in tensors.names if a < b and sizes[a] == sizes[b])
    tensors.header[one]["data_offsets"] = tensors.header[other]["data_offsets"]
    return tensors.bytes()


def shift(by, start):
    """Moves all tensors from number `start` on by `by` bytes."""
    def changed(tensors):
        for name in tensors.names[start:]:
            tensors.header[name]["data_offsets"] = [at + by for at in tensors.header[name]["data_offsets"]]
        tensors.data += b"\0" * by
        return tensors.bytes()
    return changed


def many(count, entry):
    yield b"{"
    for at in range(count):
        yield f'{"," if at else ""}"t{at}":{entry}'.encode()
    yield b"}"


def many_tensors(line, what, count, *says):
    """Empty tensors, which need no bytes."""
    def changed(_):
        size = sum(map(len, many(count, EMPTY)))
        yield struct.pack("<Q", size)
        yield from many(count, EMPTY)
    return weights(line, what, changed, *says)


SAME = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'


def sharded(line, what, change, *says, name="model.safetensors.index.json", code=INPUT, **more):
    """A valid model in two shards; `change(folder, index)` damages it."""
    def make(place):
        folder = place.base_model()
        tensors = Tensors(folder / NAME)
        (folder / NAME).unlink()
        index = {"metadata": {"total_size": len(tensors.data)}, "weight_map": {}}
        half = len(tensors.names) // 2
        for number, names in enumerate((tensors.names[:half], tensors.names[half:]), 1):
            shard = f"model-{number:05}-of-00002.safetensors"
            index["weight_map"].update({name: shard for name in names})
            write_tensors(folder / shard, tensors, names)
        text = change(folder, index)
        place.write(folder / "model.safetensors.index.json", text if isinstance(text, str) else json.dumps(index))
        return check(place)
    return Case(line, what, make, code, ((name,) if code else ()) + says, **more)


def write_tensors(path, tensors, names):
    entries, data = {}, b""
    for name in names:
        begin, end = tensors.header[name]["data_offsets"]
        entries[name] = {**tensors.header[name], "data_offsets": [len(data), len(data) + end - begin]}
        data += tensors.data[begin:end]
    text = json.dumps(entries).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def shard_named(name, prepare=lambda folder: None):
    def change(folder, index):
        prepare(folder)
        index["weight_map"][min(index["weight_map"])] = name
    return change


def a_link(folder):
    outside = folder.parent / "outside.safetensors"
    shutil.copy(folder / "model-00001-of-00002.safetensors", outside)
    (folder / "link.safetensors").symlink_to(outside)


def lacking(folder, index):
    index["weight_map"]["nowhere.weight"] = "model-00001-of-00002.safetensors"


def unnamed(folder, index):
    del index["weight_map"][min(index["weight_map"])]


def in_both(folder, index):
    shutil.copy(folder / "model-00001-of-00002.safetensors", folder / "model-00003-of-00003.safetensors")
    text = json.dumps(index)
    name = min(index["weight_map"])
    return text.replace('"weight_map": {', f'"weight_map": {{"{name}": "model-00003-of-00003.safetensors", ')


def estimated(line, what, text, *says):
    """A config.json of this text, for `trainer estimate-memory`."""
    def make(place):
        (place.folder / "model").mkdir()
        place.write("model/config.json", text)
        return ["estimate-memory", "model"]
    return Case(line, what, make, INPUT, ("config.json", *says))


def config(line, what, change, *says, code=INPUT, **more):
    """A valid model whose config.json is what `change(its object)` returns; None: missing."""
    def make(place):
        path = place.base_model() / "config.json"
        text = change(json.loads(path.read_text()))
        path.unlink()
        if text is not None:
            place.write(path, text if isinstance(text, (str, bytes)) else json.dumps(text))
        return check(place)
    return Case(line, what, make, code, (("config.json",) if code else ()) + says, **more)


def pickled(line, what, prepare, *says):
    def make(place):
        folder = place.base_model()
        (folder / NAME).unlink()
        prepare(folder)
        return check(place)
    return Case(line, what, make, INPUT, says)


class Runs:
    """A pickle that runs code."""

    def __reduce__(self):
        return (os.mkdir, ("/tmp/trainer-was-here",))


def a_pickle(name):
    return lambda folder: (folder / name).write_bytes(pickle.dumps(Runs()))


def adapter(line, what, change, *says, code=INPUT, **more):
    """A base model and an adapter for it; `change(folder, config)` damages the adapter."""
    def make(place):
        place.base_model()
        folder = place.folder / "adapter"
        folder.mkdir()
        config = {"peft_type": "LORA", "task_type": "SEQ_2_SEQ_LM", "r": 2, "lora_alpha": 4, "target_modules": ["q", "v"],
                  "base_model_name_or_path": str(place.folder / "model")}
        (folder / "adapter_model.safetensors").write_bytes(adapter_weights(16, 8))
        changed = change(folder, config)
        (folder / "adapter_config.json").write_text(changed if isinstance(changed, str) else json.dumps(config))
        return check(place, {"lora": {"path": str(folder)}})
    return Case(line, what, make, code, says, **more)


def slow_pattern(key, end):
    """A backtracking engine tries all ways to split a name before it fails, unless it sees that `end` is missing."""
    slow = "(([A-Za-z._0-9]+)+)+" + end
    return lambda folder, config: config.update({key: slow if key == "target_modules" else {slow: 4}})


def adapter_weights(inputs, outputs):
    entries, size = {}, 0
    blocks = [("encoder", 0, "SelfAttention"), ("decoder", 0, "SelfAttention"), ("decoder", 1, "EncDecAttention")]
    for stack, layer, attention in blocks:
        for module in "qv":
            for part, shape in (("A", [2, inputs]), ("B", [outputs, 2])):
                name = f"base_model.model.{stack}.block.0.layer.{layer}.{attention}.{module}.lora_{part}.weight"
                bytes_ = 4 * shape[0] * shape[1]
                entries[name] = {"dtype": "F32", "shape": shape, "data_offsets": [size, size + bytes_]}
                size += bytes_
    text = json.dumps(entries).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


def of_another_base(folder, config):
    (folder / "adapter_model.safetensors").write_bytes(adapter_weights(32, 8))


def without_weights(folder, config):
    (folder / "adapter_model.safetensors").unlink()


def pickled_adapter(folder, config):
    without_weights(folder, config)
    a_pickle("adapter_model.bin")(folder)


def seal_of(body):
    """The checksum at the end of manifest.json, as the writer computes it."""
    class Hash(ctypes.Structure):
        _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]

    count = ctypes.CDLL(ctypes.util.find_library("xxhash")).XXH3_128bits
    count.restype = Hash
    count.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    found = count(body, len(body))
    return f"xxh3:{found.high:016x}{found.low:016x}"


def can_seal():
    return ctypes.util.find_library("xxhash") is not None


def sealed(manifest):
    body = json.dumps(manifest, indent=1)[:-2]
    return body + f',\n "seal": "{seal_of(body.encode())}"\n}}\n'


def checkpoint(line, what, change, *says, command="verify", code=INPUT, reseal=False, **more):
    """A run's folder whose checkpoint-2 is damaged by `change(folder, manifest)`."""
    def make(place):
        output = place.run_folder()
        folder = output / "checkpoint-2"
        path = folder / "manifest.json"
        manifest = json.loads(path.read_text())
        del manifest["seal"]
        text = change(folder, manifest)
        if isinstance(text, (str, bytes)):
            place.write(path, text)
        elif reseal:
            path.write_text(sealed(manifest))
        if command == "launch":
            return ["launch", "--config_file", place.job({"data": {"validation": None}, "evaluation": None,
                                                          "training": {"max_steps": 3}})]
        return ["checkpoint", command, str(folder)]
    needs = can_seal if reseal else None
    return Case(line, what, make, code, says, needs=needs, tells_on_output=command == "verify",
                may_write=("output/outcome.json", "output/logs"), **more)


def manifest(line, what, change, *says, **more):
    """A checkpoint whose manifest is damaged but has a valid checksum."""
    return checkpoint(line, what, lambda folder, content: change(content), *says, reseal=True, **more)


def cut_file(name, by=1):
    def change(folder, _):
        path = folder / name
        path.write_bytes(path.read_bytes()[:-by])
    return change


def flip_bit(name):
    def change(folder, _):
        path = folder / name
        content = bytearray(path.read_bytes())
        content[-9] ^= 4
        path.write_bytes(content)
    return change


def remove(name):
    return lambda folder, _: (folder / name).unlink()


def in_files(key, value):
    return lambda content: content["files"][0].update({key: value})


def in_pieces(key, value):
    return lambda content: content["tensors"][0]["pieces"][0].update({key: value})


def in_progress(key, value):
    return lambda content: content["progress"].update({key: value})


def link_to_root(place):
    place.run_folder()
    shutil.rmtree(place.folder / "output/checkpoint-2")
    (place.folder / "output/checkpoint-2").symlink_to("/")
    return ["checkpoint", "verify", str(place.folder / "output/checkpoint-2")]


def grows(place):
    """As if another process appends while the file is read: it is longer than its header says."""
    path = place.base_model() / NAME
    with open(path, "ab") as file:
        file.write(b"\0" * 8)
    return check(place)


def deep_metrics(place):
    output = place.run_folder()
    with open(output / "metrics.jsonl", "a") as file:
        file.write(f'{{"step": 1, "order_digest": "x", "loss": {CLOSED}}}\n')
    return ["replay", str(output), "--steps", "1:2"]


BLOCKS = "encoder.block.0.layer.0.SelfAttention.q.weight"
def export(line, what, arguments, *says):
    """`trainer export` of a good T5 model, next to a file x.gguf."""
    def make(place):
        place.base_model()
        place.write("x.gguf", "mine")
        return ["export", "model", *arguments]
    return Case(line, what, make, CONFIGURATION, says)


LINES = [
    [weights(167, f"{size} bytes", lambda tensors, size=size: tensors.bytes()[:size]) for size in (0, 1, 7, 8)],
    length(168, "a header of 0 bytes", 0),
    length(169, "a header of 2^63 bytes", 2**63, str(2**63)),
    length(170, "a header of 100,000,001 bytes", 100_000_001, "100000001"),
    length(171, "a header beyond the file", 10_000_000, "10000000"),
    weights(172, "a header that ends too early", lambda tensors: struct.pack("<Q", 100) + tensors.bytes()[8:]),
    header(173, "a header that is not UTF-8", lambda text: text.encode().replace(b"q.weight", b"\xff\xfeweight", 1)),
    header(174, "a byte-order mark", lambda text: b"\xef\xbb\xbf" + text.encode()),
    header(175, "spaces before the header", lambda text: "  " + text, code=DONE,
           although="the safetensors package reads it, and pads headers with spaces itself"),
    header(176, "NULs after the header", lambda text: text + "\0\0\0"),
    own_header(177, "a list", "[]"),
    own_header(178, "no tensors", "{}", "missing", name="model"),
    header(179, "a tensor twice", lambda text: text[:-1] + ", " + text[text.index(f'"{BLOCKS}"'):text.index(
        "}", text.index(f'"{BLOCKS}"')) + 1] + "}", BLOCKS, "twice"),
    header(179, "a tensor twice with another dtype", lambda text: text[:-1] + f', "{BLOCKS}": {EMPTY}}}', BLOCKS, "twice"),
    header(180, "a field twice", lambda text: text.replace('"dtype": "F32"', '"dtype": "F32", "dtype": "I64"', 1), "twice"),
    first(181, "an unknown field", setting("color", "blue"), code=DONE,
          although="the safetensors package ignores it: a newer format may have more fields"),
    first(182, "an unknown dtype", setting("dtype", "F33"), "F33"),
    first(182, "a dtype in lower case", setting("dtype", "f32"), "f32"),
    first(182, "a dtype of 4 bits", setting("dtype", "F4")),
    first(183, "a negative dimension", setting("shape", [-1, 16]), "shape"),
    first(183, "a fraction for a dimension", setting("shape", [1.5]), "shape"),
    first(183, "text for a dimension", setting("shape", ["16"]), "shape"),
    first(183, "a shape of 2^64 elements", setting("shape", [2**32, 2**32])),
    first(183, "a shape of 2^64 elements, and 0", setting("shape", [2**63 - 1, 2, 0])),
    first(183, "100,000 dimensions", setting("shape", [1] * 100_000)),
    first(184, "negative offsets", setting("data_offsets", [-4, 0]), "data_offsets"),
    first(184, "offsets in the wrong order", setting("data_offsets", [64, 0]), "64"),
    first(184, "one offset", setting("data_offsets", [0]), "data_offsets"),
    first(184, "three offsets", setting("data_offsets", [0, 4, 8]), "data_offsets"),
    first(184, "a fraction for an offset", setting("data_offsets", [0.0, 4.0]), "data_offsets"),
    first(184, "an offset of 2^64", setting("data_offsets", [0, 2**64]), "data_offsets"),
    first(184, "no offsets", lambda entry: entry.pop("data_offsets"), "data_offsets"),
    weights(185, "tensors that overlap", overlap),
    weights(186, "a hole", shift(8, 3)),
    weights(187, "a gap at the start", shift(8, 0)),
    weights(188, "bytes after the last tensor", lambda tensors: tensors.bytes() + b"PK\x03\x04rest"),
    weights(189, "a missing byte", lambda tensors: tensors.bytes()[:-1]),
    first(190, "a size that does not match shape and dtype", setting("shape", [3, 3]), "[3, 3]"),
    weights(191, "1,000,000 tensors on the same bytes", lambda _: [struct.pack("<Q", sum(map(len, many(1_000_000, SAME)))),
                                                                  *many(1_000_000, SAME), b"\0" * 4]),
    many_tensors(192, "1,100,000 empty tensors", 1_100_000, "100000"),
    many_tensors(192, "100,001 empty tensors", 100_001, "100000"),
    renamed(193, "a tensor without a name, which the format allows", "", "missing", name="model"),
    renamed(193, "a tensor's name with NUL", "a\0b", "missing", name="model"),
    renamed(193, "a tensor's name with a line end", "a\nb", "missing", name="model"),
    renamed(193, "a tensor's name that moves the cursor", "\x1b[2J\x1b[1;1H", "missing", name="model"),
    renamed(193, "a tensor's name that is a path", "../../etc/passwd", "missing", name="model"),
    renamed(193, "a tensor's name of 1 MB", "x" * 1_000_000),
    header(194, "metadata that is not text", lambda text: json.dumps({**json.loads(text), "__metadata__": {"format": 1}}),
           "__metadata__"),
    header(194, "metadata that is null", lambda text: json.dumps({**json.loads(text), "__metadata__": None}), code=DONE,
           although="the safetensors package reads it as no metadata"),
    header(194, "metadata twice", lambda text: '{"__metadata__": {}, ' + json.dumps({**json.loads(text), "__metadata__": {}}
                                                                                  )[1:], "__metadata__", "twice"),
    header(194, "a key of metadata twice", lambda text: json.dumps({**json.loads(text), "__metadata__": {"a": "x"}}).replace(
        '{"a": "x"}', '{"a": "x", "a": "y"}'), "__metadata__", "twice"),
    header(194, "50 MB of metadata", lambda text: json.dumps({**json.loads(text), "__metadata__": {"a": "x" * 50_000_000}})),
    own_header(195, "nested 100,000 deep", lambda: '{"a": ' + "[" * 100_000),
    header(195, "nested 100,000 deep in an unknown field", lambda text: text.replace(
        '"dtype"', '"x": ' + "[" * 100_000 + "]" * 100_000 + ', "dtype"', 1)),
    sharded(196, "a shard above the folder", shard_named("../x.safetensors"), "same folder"),
    sharded(196, "a shard at an absolute path", shard_named("/etc/passwd"), "/etc/passwd"),
    sharded(196, "a shard above a subfolder", shard_named("a/../../b.safetensors"), "same folder"),
    sharded(196, "a shard on a Windows disk", shard_named("C:\\x.safetensors"), "same folder"),
    sharded(196, "a shard without a name", shard_named("")),
    sharded(196, "a shard's name with NUL", shard_named("a\0.safetensors")),
    sharded(196, "a shard that is a folder", shard_named("d.safetensors", lambda folder: (
        folder / "d.safetensors").mkdir()), "d.safetensors", name="folder"),
    sharded(196, "a shard that is a named pipe", shard_named("p.safetensors", lambda folder: os.mkfifo(
        folder / "p.safetensors")), "p.safetensors", name="not a regular file"),
    sharded(196, "a shard that is a link out of the folder", shard_named("link.safetensors", a_link), "link.safetensors",
            name="link"),
    sharded(196, "a shard at an address", shard_named("https://example.com/x.safetensors"), "same folder"),
    sharded(197, "a tensor that its shard lacks", lacking, "nowhere.weight"),
    sharded(198, "a tensor that the index lacks", unnamed, "missing", name="model"),
    sharded(199, "a tensor in two shards", in_both, "twice"),
    sharded(200, "another total size", lambda folder, index: index["metadata"].update(total_size=5), code=DONE,
            although="models on the Hub have it (tied weights, another dtype), no program reads it, and each shard's own "
                     "header is checked against its bytes"),
    sharded(200, "an index that is not JSON", lambda folder, index: json.dumps(index)[:-3]),
    sharded(200, "an index with 200,000 nested lists, closed", lambda folder, index: f'{{"metadata": {CLOSED}}}', "deep"),
    config(201, "no config.json", lambda content: None),
    config(201, "other shapes", lambda content: {**content, "d_ff": 48}, "wi.weight"),
    config(201, "1 GB for a number", lambda content: {**content, "d_model": 2**40}),
    config(201, "a number of 1 MB of digits", lambda content: json.dumps(content)[:-1] + ', "d_ff": ' + "9" * 1_000_000 + "}"),
    config(201, "2 MB", lambda content: json.dumps(content) + " " * 2_000_000),
    config(201, "a billion layers", lambda content: {**content, "num_layers": 10**9}, "num_layers"),
    config(201, "200,000 nested lists, closed", lambda content: json.dumps(content)[:-1] + f', "x": {CLOSED}}}'),
    config(201, "a list", lambda content: [content]),
    estimated(201, "to estimate: not JSON", "{"),
    estimated(201, "to estimate: deep JSON", "[" * 100_000),
    estimated(201, "to estimate: no model type", "{}", "model_type"),
    estimated(201, "to estimate: another model type", '{"model_type": "teleport"}', "teleport"),
    estimated(201, "to estimate: a billion layers", '{"model_type": "gpt2", "n_layer": 1000000000}', "n_layer"),
    estimated(201, "to estimate: a negative width", '{"model_type": "gpt2", "n_embd": -1}', "n_embd", "-1"),
    estimated(201, "to estimate: quantized weights", '{"model_type": "gpt2", "quantization_config": {"quant_method": "gptq"}}',
              "gptq"),
    config(201, "another model type", lambda content: {**content, "model_type": "teleport"}, "teleport"),
    config(201, "custom model code is never run", lambda content: {**content, "auto_map": {
        "AutoModel": "evil.Model"}}, code=DONE, although="the family is supported; the code is never loaded"),
    pickled(202, "pickled weights", a_pickle("pytorch_model.bin"), "pytorch_model.bin", "onvert"),
    pickled(202, "pickled weights in shards", a_pickle("pytorch_model-00001-of-00002.bin"), "pickle", "onvert"),
    pickled(202, "pickled weights called model.pt", a_pickle("model.pt"), "pickle", "onvert"),
    weights(202, "a pickle called model.safetensors", lambda tensors: pickle.dumps(Runs())),
    weights(202, "a zip archive called model.safetensors", lambda tensors: b"PK\x03\x04" + bytes(4096)),
    adapter(203, "an adapter of another base", of_another_base, "adapter_model.safetensors", "[2, 32]", "[2, 16]"),
    adapter(203, "an adapter without weights", without_weights, "adapter_model.safetensors"),
    adapter(203, "a pickled adapter", pickled_adapter, "adapter_model", "pickle"),
    adapter(203, "an adapter's configuration with 200,000 nested lists, closed", lambda folder, config:
            f'{{"r": {CLOSED}}}', "adapter_config.json"),
    [adapter(203, f"{key} that a regular expression would search for hours", slow_pattern(key, "[!?]"), key, "too long",
             code=CONFIGURATION) for key in ("rank_pattern", "alpha_pattern", "target_modules")],
    [adapter(203, f"{key} that a naive engine would search for hours", slow_pattern(key, "!"), code=DONE,
             although="PEFT ignores a pattern that matches no layer, too") for key in ("rank_pattern", "alpha_pattern")],
    adapter(203, "target_modules that a naive engine would search for hours", slow_pattern("target_modules", "!"),
            "target_modules", "matches no layer", code=CONFIGURATION),
    adapter(203, "an adapter's configuration that is not JSON", lambda folder, config: "{", "adapter_config.json"),
    adapter(203, "an adapter of an unknown kind", lambda folder, config: config.update(peft_type="MAGIC"), "MAGIC",
            "adapter_config.json"),
    adapter(203, "an adapter of rank -1", lambda folder, config: config.update(r=-1), "adapter_config.json", "r"),
    manifest(204, "optimizer state of other parameters", lambda content: content["tensors"][-1].update(
        name="no.such.weight"), "not in the checkpoint", command="launch"),
    NotHere(205, "a checkpoint has no random generator state: every draw is a function of the seed and a position"),
    checkpoint(206, "no manifest", remove("manifest.json"), "manifest.json"),
    checkpoint(206, "half a manifest", lambda folder, content: (folder / "manifest.json").read_text()[:500], "manifest.json"),
    checkpoint(206, "an edited manifest", lambda folder, content: (folder / "manifest.json").read_text().replace(
        '"step": 2', '"step": 1'), "manifest.json", "checksum"),
    [checkpoint(206, f"a manifest with 200,000 nested lists, closed: {command}", lambda folder, content: CLOSED,
                "manifest.json", command=command) for command in ("verify", "launch")],
    checkpoint(206, "a manifest with 200,000 nested lists, closed: list", lambda folder, content: CLOSED, "manifest.json",
               command="list", code=DONE, although="the list says what is wrong with each checkpoint"),
    Case(206, "metrics.jsonl with 200,000 nested lists, closed", deep_metrics, DONE,
         although="such a line isn't a record: it is left out"),
    manifest(206, "a manifest of another step", in_progress("step", 7), "manifest.json", "step 7", "checkpoint-2", command="launch"),
    checkpoint(206, "a flipped bit in a shard", flip_bit("rank-00000.safetensors"), "rank-00000.safetensors", "checksum"),
    checkpoint(206, "a truncated shard", cut_file("rank-00000.safetensors"), "rank-00000.safetensors"),
    checkpoint(206, "a missing shard", remove("rank-00000.safetensors"), "rank-00000.safetensors"),
    checkpoint(206, "a flipped bit in a shard, when a run resumes", flip_bit("rank-00000.safetensors"),
               "rank-00000.safetensors", "checksum", command="launch"),
    [manifest(206, f"a manifest that lists {name}", in_files("name", name), "manifest.json", "outside") for name in
     ("../model.safetensors", "/etc/passwd", "..", "")],
    manifest(206, "a shard in a file outside", in_pieces("file", "../model.safetensors"), "manifest.json", "outside", command="launch"),
    manifest(206, "a missing entry", in_pieces("entry", "nothing"), "rank-00000.safetensors", "nothing", command="launch"),
    manifest(206, "a shard beyond its tensor", in_pieces("end", 2**40), "manifest.json", command="launch"),
    manifest(206, "a shape of 2^64 elements", lambda content: content["tensors"][0].update(shape=[2**32, 2**32]),
             "manifest.json", command="launch"),
    manifest(207, "a negative step", in_progress("step", -3), "manifest.json", "step is -3"),
    manifest(207, "a step of 2^63", in_progress("step", 2**63), "manifest.json", str(2**63)),
    manifest(207, "text for a step", in_progress("step", "2"), "manifest.json", "step"),
    manifest(207, "a negative number of samples", in_progress("consumed_samples", -8), "manifest.json", "consumed_samples", command="launch"),
    manifest(208, "a newer format", lambda content: content.update(version=99), "manifest.json", "newer"),
    manifest(208, "another program's format", lambda content: content.update(format="other"), "manifest.json"),
    Case(209, "a checkpoint that is a link to /", link_to_root, INPUT, ("manifest.json",)),
    export(210, "a GGUF file of another ending", ["x.bin", "--format", "gguf"], "x.bin", ".gguf"),
    export(210, "a GGUF file that exists", ["x.gguf", "--format", "gguf"], "x.gguf", "exists"),
    export(210, "a family that llama.cpp lacks", ["y.gguf", "--format", "gguf"], "T5ForConditionalGeneration", "llama"),
    export(210, "a model with --merge", ["x", "--merge"], "--merge", "not an adapter"),
    Case(210, "a file that grows", grows, INPUT, (NAME,)),
]
