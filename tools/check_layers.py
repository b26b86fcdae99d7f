#!/usr/bin/env python3
"""Checks every #include against the layers: check_layers.py [ROOT]. Prints one line per problem; exit status 1 if any.

A layer is a trainer_library(). Its DEPENDS are the only place that states the layers below it. A file may include
headers of its own layer and of layers reachable through DEPENDS. RULES restricts external libraries to some folders.
JSON is parsed only by the functions that bound its nesting.
"""

import collections
import pathlib
import re
import sys

TREES = ("engine", "models", "data")
TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
# (library, its headers, the folders that may include it (None: all), the folders that must not)
RULES = [
    ("torch", TORCH, None, ("engine/base", "engine/config", "engine/launch", "engine/cli")),
    ("yaml-cpp", re.compile(r"yaml-cpp/"), ("engine/config",), ()),
    ("sentencepiece", re.compile(r"sentencepiece"), ("data",), ()),
    ("arrow", re.compile(r"(arrow|parquet)/"), ("data/readers/arrow",), ()),
    ("c10d", re.compile(r"(torch/csrc/distributed/|gloo/|nccl\.h|mpi\.h)"), ("engine/dist",), ()),
]
JSON_PARSE = re.compile(r"[jJ]son::(parse|sax_parse|accept|from_\w+)\(")
JSON_PARSERS = ("engine/base/bounded_json.h", "data/json/parse_json.cpp", "data/tokenizers/token_lists.cpp",
                "engine/config/document/json_reader.cpp", "engine/tensorfile/header.cpp", "engine/tensorfile/tensor_folder.cpp")
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
Layer = collections.namedtuple("Layer", "name folder sources depends torch")


def read_layers(root):
    """Every trainer_library() of the tree, by name."""
    layers = {}
    for listing in sorted(path for tree in TREES for path in (root / tree).rglob("CMakeLists.txt")):
        text = re.sub(r"#.*", "", listing.read_text())
        for call in re.findall(r"\btrainer_library\s*\(([^()]*)\)", text):
            name, *words = call.split()
            lists, key = collections.defaultdict(list), ""
            for word in words:
                if word in ("SOURCES", "DEPENDS", "LIBRARIES", "TORCH"):
                    key = word
                    lists[key]
                else:
                    lists[key].append(word)
            sources = {listing.parent / source for source in lists["SOURCES"]}
            layers[name] = Layer(name, listing.parent, sources, lists["DEPENDS"], "TORCH" in lists)
    return layers


def reachable(layers, name):
    seen, waiting = set(), [name]
    while waiting:
        layer = waiting.pop()
        if layer in layers and layer not in seen:
            seen.add(layer)
            waiting += layers[layer].depends
    return seen


def cycles(layers):
    return sorted(name for name, layer in layers.items()
                  if any(name in reachable(layers, below) for below in layer.depends))


def owners(layers, path):
    """The layers a file belongs to: the one that lists it (or its .cpp), else all of the nearest folder with any."""
    for folder in path.parents:
        here = [layer for layer in layers.values() if layer.folder == folder]
        if here:
            listed = [layer for layer in here if path in layer.sources or path.with_suffix(".cpp") in layer.sources]
            return {layer.name for layer in listed or here}
    return set()


def inside(path, root, folders):
    return any(path.is_relative_to(root / folder) for folder in folders)


def check_external(root, path, header, layers, mine):
    for what, pattern, only, never in RULES:
        if pattern.match(header) and (inside(path, root, never) or (only and not inside(path, root, only))):
            yield f"<{header}>: {what} belongs in {' '.join(only) if only else 'other folders'}"
    if TORCH.match(header) and mine and not any(layers[name].torch for name in mine):
        yield f"<{header}>: the layer {' '.join(sorted(mine))} is not marked TORCH"


def check_internal(root, path, header, layers, mine):
    target = root / header
    if not header.startswith(tuple(f"{tree}/" for tree in TREES)):
        yield f'"{header}": include project headers by their path from the root'
    elif not target.is_file():
        yield f'"{header}": there is no such file'
    elif mine and not any(owners(layers, target) & reachable(layers, name) for name in mine):
        yield (f'"{header}" belongs to {" ".join(sorted(owners(layers, target)))}, which '
               f'{" ".join(sorted(mine))} does not reach through its DEPENDS')


def problems(root):
    layers = read_layers(root)

    def place(layer):
        return f"{layer.folder.relative_to(root)}/CMakeLists.txt"

    for layer in layers.values():
        for below in layer.depends:
            if below not in layers:
                yield f"{place(layer)}: {layer.name} depends on {below}, which isn't a layer"
    for name in cycles(layers):
        yield f"{place(layers[name])}: {name} depends on itself through its DEPENDS"
    files = (path for tree in TREES for path in (root / tree).rglob("*"))
    for path in sorted(path for path in files if path.suffix in (".h", ".cpp", ".cu")):
        mine = owners(layers, path)
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if JSON_PARSE.search(line) and not inside(path, root, JSON_PARSERS):
                yield f"{path.relative_to(root)}:{number}: parse JSON with bounded_json() or data::parse_json()"
            match = INCLUDE.match(line)
            if match:
                check = check_internal if match[1] == '"' else check_external
                for problem in check(root, path, match[2], layers, mine):
                    yield f"{path.relative_to(root)}:{number}: {problem}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    found = list(problems(root))
    if found:
        print("\n".join(found))
        sys.exit(f"{len(found)} lines violate the layers")


if __name__ == "__main__":
    main()
