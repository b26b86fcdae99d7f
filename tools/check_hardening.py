#!/usr/bin/env python3
"""Checks how programs are linked and compiled: check_hardening.py PROGRAM…

Relocatable, with tables of addresses that are read-only after the start, no memory that is writable and executable, and
checks of the stack and of buffers (cmake/Dependencies.cmake)."""

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


found = [problem for program in sys.argv[1:] for problem in problems(program)]
print("\n".join(found) or f"{len(sys.argv) - 1} programs are hardened")
sys.exit(1 if found or len(sys.argv) < 2 else 0)
