"""The `trainer` command of a Python environment; it executes the native program."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "trainer"
    os.execv(program, ["trainer", *sys.argv[1:]])
