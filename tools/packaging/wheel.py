#!/usr/bin/env python3
"""Packs a folder into a Python wheel: wheel.py TREE VERSION TORCH_VERSION GLIBC OUTPUT_DIR, prints the wheel's path.

TREE is the package `trainer_engine` (bin/, lib/, __init__.py …). The wheel requires the exact torch version that the
programs were linked with, and doesn't contain libtorch: the programs find torch/lib next to the package.
Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import hashlib
import pathlib
import stat
import sys
import zipfile

NAME = "trainer_engine"


def metadata(version: str, torch: str) -> str:
    return (
        "Metadata-Version: 2.1\n"
        f"Name: {NAME}\n"
        f"Version: {version}\n"
        "Summary: A native engine that trains transformer models from Accelerate's YAML file\n"
        "Requires-Python: >=3.10\n"
        f"Requires-Dist: torch=={torch}\n"
    )


def contents(tree: pathlib.Path, version: str, torch: str, tag: str):
    """(name in the wheel, bytes, is a program) of each file, RECORD excepted."""
    for path in sorted(path for path in tree.rglob("*") if path.is_file()):
        yield f"{NAME}/{path.relative_to(tree)}", path.read_bytes(), bool(path.stat().st_mode & stat.S_IXUSR)
    info = f"{NAME}-{version}.dist-info"
    yield f"{info}/METADATA", metadata(version, torch).encode(), False
    yield f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: trainer\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False
    yield f"{info}/entry_points.txt", f"[console_scripts]\ntrainer = {NAME}:main\n".encode(), False


def main() -> None:
    tree, version, torch, glibc, output = sys.argv[1:]
    tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_x86_64"
    wheel = pathlib.Path(output) / f"{NAME}-{version}-{tag}.whl"
    unfinished = wheel.with_suffix(".whl.tmp")
    record = []
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as file:
        for name, data, is_program in contents(pathlib.Path(tree), version, torch, tag):
            entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))  # the same input makes the same wheel
            entry.external_attr = (stat.S_IFREG | (0o755 if is_program else 0o644)) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            file.writestr(entry, data)
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
        name = f"{NAME}-{version}.dist-info/RECORD"
        record.append(f"{name},,\n")
        file.writestr(zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0)), "".join(record))
    unfinished.rename(wheel)
    print(wheel)


if __name__ == "__main__":
    main()
