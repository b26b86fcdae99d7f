"""What a Python environment sees of trainer: the command, which hands over to the native program."""

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "trainer"
    os.execv(program, ["trainer", *sys.argv[1:]])
