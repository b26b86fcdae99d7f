#!/usr/bin/env python3
"""Checks how programs are linked and compiled: check_hardening.py PROGRAM… [--objects FOLDER…]

Relocatable, with tables of addresses that are read-only after the start, no memory that is writable and executable, and
checks of the stack and of buffers (cmake/Dependencies.cmake). On x86, also the object files below the folders: a jump can
only reach a marked target (IBT), and a return only its call (SHSTK). A whole program is protected if libc's startup
files are as well, which depends on the system."""

import argparse
import pathlib
import re
import subprocess
import sys


def said(flags: str, program: str) -> str:
    return subprocess.run(["readelf", flags, "--wide", program], check=True, capture_output=True, text=True).stdout


def problems(program: str) -> list[str]:
    header, segments, dynamic, symbols = (said(flags, program) for flags in ("-h", "-l", "-d", "--dyn-syms"))
    rules = {"is not relocatable (PIE)": re.search(r"Type:\s+DYN", header),
             "has no read-only relocations": "GNU_RELRO" in segments,
             "binds functions late (-z now)": re.search(r"BIND_NOW|Flags:.*\bNOW\b", dynamic),
             "has memory that is writable and executable": not re.search(r"\bRWE\b", segments),
             "has no stack protector": "__stack_chk_fail" in symbols,
             "has no checked buffers (_FORTIFY_SOURCE)": re.search(r"__\w+_chk\b(?<!stack_chk)", symbols)}
    return [f"{program} {fault}" for fault, good in rules.items() if not good]


def object_problems(folder: pathlib.Path) -> list[str]:
    objects = sorted(map(str, folder.rglob("*.cpp.o")))
    if not objects:
        return [f"{folder} has no object files"]
    if "X86-64" not in said("-h", objects[0]):
        return []
    text = subprocess.run(["readelf", "-n", "--wide", *objects], check=True, capture_output=True, text=True).stdout
    parts = re.split(r"^File: (.*)$", text, flags=re.MULTILINE)[1:] if len(objects) > 1 else [objects[0], text]
    notes = dict(zip(parts[::2], parts[1::2]))
    return [f"{name} has no control-flow protection (IBT, SHSTK)" for name in objects
            if not re.search(r"\bIBT\b.*\bSHSTK\b", notes.get(name, ""))]


parser = argparse.ArgumentParser()
parser.add_argument("programs", nargs="+")
parser.add_argument("--objects", nargs="*", type=pathlib.Path, default=[])
arguments = parser.parse_args()
found = [problem for program in arguments.programs for problem in problems(program)]
found += [problem for folder in arguments.objects for problem in object_problems(folder)]
print("\n".join(found) or f"{len(arguments.programs)} programs are hardened")
sys.exit(1 if found else 0)
