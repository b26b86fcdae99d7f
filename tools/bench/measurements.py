"""The file of measurements, a line for each job and machine: measurements.py FILE COMMAND
Exit status 0 if COMMAND has been measured today on this machine, else 1."""

import datetime
import json
import os
import pathlib
import sys

import machine


def hardware(line: dict) -> str:
    return line["machine"].split(", Linux")[0]


def job(line: dict) -> str:
    """The same whatever the number of rounds."""
    return line.get("title", line["command"])


def is_void(line: dict) -> bool:
    """Whether a measurement gave no ratio, because the machine was not quiet."""
    results = line.get("results", {})
    return "void" in results or any("void" in row for rows in results.values() if isinstance(rows, dict)
                                    for row in rows.values() if isinstance(row, dict))


def read(path: pathlib.Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def merged(lines: list[dict], new: dict) -> list[dict]:
    """`new` in the place of the earlier measurement of its job on its machine, or after the machine's others, or last.
    A void one replaces nothing."""
    here = [i for i, line in enumerate(lines) if hardware(line) == hardware(new)]
    for i, line in enumerate(lines):
        if job(line) == job(new) and (i in here or "scaling" in line):  # which has one plot
            return lines if is_void(new) else [*lines[:i], new, *lines[i + 1:]]
    end = here[-1] + 1 if here else len(lines)
    return [*lines[:end], new, *lines[end:]]


def keep(path: pathlib.Path, measured: dict) -> None:
    """Adds what the command, the title and the results are to the file, with this machine and day."""
    new = {"machine": machine.describe(), "day": datetime.date.today().isoformat(), **measured}
    lines = merged(read(path), new)
    if new not in lines:
        print("void: the file keeps the earlier measurement")
    unfinished = path.with_name(path.name + ".new")
    unfinished.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    os.replace(unfinished, path)


def measured_today(path: pathlib.Path, command: str) -> bool:
    here = hardware({"machine": machine.describe()})
    return any(line["command"] == command and hardware(line) == here and line["day"] == datetime.date.today().isoformat()
               and not is_void(line) for line in read(path))


if __name__ == "__main__":
    sys.exit(0 if measured_today(pathlib.Path(sys.argv[1]), sys.argv[2]) else 1)
