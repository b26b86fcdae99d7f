#!/usr/bin/env python3
"""Compiles the CUDA kernels for every architecture with all warnings as errors: check_kernels.py [ROOT].

Prints the registers and shared memory of each kernel. Fails if a file draws a warning, or if a kernel spills registers or
keeps variables in local memory. Exit status 77 if there is no nvcc. No GPU is needed.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ENTRY = re.compile(r"Compiling entry function '(\S+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers(?:.*?(\d+) bytes smem)?")


def flags(root):
    """The flags of the build."""
    text = (root / "cmake" / "CudaKernels.cmake").read_text()
    return re.search(r"set\(TRAINER_CUDA_FLAGS ([^)]*)\)", text)[1].split()


def compile_file(nvcc, root, path, folder):
    """[(kernel, architecture, registers, bytes of shared memory, bytes of local memory)]"""
    run = subprocess.run([nvcc, *flags(root), "--resource-usage", f"-I{root}", "-c", path, "-o", f"{folder}/{path.name}.o"],
                         capture_output=True, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{path.relative_to(root)}:\n{run.stdout}{run.stderr}")
    found, name, architecture, local = [], "", "", 0
    for line in (run.stdout + run.stderr).splitlines():
        if match := ENTRY.search(line):
            name, architecture = match.groups()
        elif match := STACK.search(line):
            local = sum(map(int, match.groups()))
        elif match := USED.search(line):
            found.append((name, architecture, int(match[1]), int(match[2] or 0), local))
    return found


def plain_names(names):
    """Kernels' names without their mangling and namespaces."""
    tool = shutil.which("c++filt")
    if tool is None:
        return dict(zip(names, names))
    shown = subprocess.run([tool], input="\n".join(names), capture_output=True, text=True, check=True).stdout.split("\n")
    return {name: re.sub(r"\(anonymous namespace\)::|trainer::nn::(cuda::)?|^void |\(.*", "", text.replace(
        "(anonymous namespace)::", "")) for name, text in zip(names, shown)}


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    deps = os.environ.get("TRAINER_DEPS") or f"{cache}/trainer/deps"
    nvcc = shutil.which("nvcc", path=os.pathsep.join([f"{deps}-cuda/nvidia/cu13/bin", os.environ.get("PATH", ""),
                                                      "/usr/local/cuda/bin"]))
    if nvcc is None:
        print("skipped: nvcc was not found")
        sys.exit(77)
    kernels = {}
    with tempfile.TemporaryDirectory() as folder:
        for path in sorted((root / "models" / "nn" / "cuda").glob("*.cu")):
            found = compile_file(nvcc, root, path, folder)
            if not found:
                sys.exit(f"{path.relative_to(root)}: nvcc reports no kernel")
            for name, architecture, *numbers in found:
                kernels.setdefault((path.name, name), {})[architecture] = numbers
    names = plain_names([name for _, name in kernels])
    architectures = sorted({a for of in kernels.values() for a in of}, key=lambda a: int(a[3:]))
    print(f"registers per thread on {', '.join(architectures)}; bytes of shared memory per block")
    local = []
    for (file, name), of in kernels.items():
        registers = " ".join(f"{of[a][0]:3}" for a in architectures)
        print(f"{file:18} {registers} {of[architectures[0]][1]:5}  {names[name]}")
        emulates = "bfloat16" in names[name]  # on Turing, which has no instructions for it
        local += [f"{file}: {names[name]} on {a}" for a in architectures if of[a][2] > 0 and not (emulates and a == "sm_75")]
    if local:
        sys.exit("these kernels use local memory:\n" + "\n".join(local))
    print(f"{len(kernels)} kernels, {len(architectures)} architectures, no local memory")


if __name__ == "__main__":
    main()
