"""Compares programs update by update: all are in memory, and only the one whose turn it is runs.

Every program makes the same update in each round, one after the other, in an order that changes. So what the machine does
to one it does to the others, and each round gives a ratio of its own.
"""

import contextlib
import dataclasses
import pathlib
import random
import statistics
from collections.abc import Callable

from machine import Look, look, was_quiet
from processes import Memory, Program, process_group

WARM_UP = 3        # updates that are not counted; the largest memory is looked at in them, as that takes time
LOOK_SECONDS = 0.05
LEAST = 5          # quiet rounds, for a ratio
RESAMPLES = 2000


@dataclasses.dataclass
class Round:
    seconds: dict[str, float]  # of one update, by program
    tokens: dict[str, float]
    looks: list[Look]  # before, between and after them

    @property
    def quiet(self) -> bool:
        return was_quiet(self.looks)


@dataclasses.dataclass
class Comparison:
    rounds: list[Round]
    memory: dict[str, Memory]
    losses: dict[str, list[float]]

    @property
    def quiet(self) -> list[Round]:
        return [found for found in self.rounds if found.quiet]

    @property
    def void(self) -> str:
        """Why there is no ratio; empty: there is one."""
        if len(self.quiet) < LEAST:
            return f"{len(self.quiet)} of {len(self.rounds)} rounds were quiet, and a ratio takes {LEAST}"
        return ""

    def speed(self, name: str) -> float:
        """Real tokens per second, of the quiet rounds."""
        return sum(r.tokens[name] for r in self.quiet) / sum(r.seconds[name] for r in self.quiet)

    def updates_per_second(self, name: str) -> float:
        return len(self.quiet) / sum(r.seconds[name] for r in self.quiet)

    def ratio(self, ours: str, peer: str) -> tuple[float, float, float]:
        """How many times faster `ours` is: the median of the quiet rounds, and the 95 % interval of that median."""
        ratios = [r.seconds[peer] / r.seconds[ours] for r in self.quiet]
        draw = random.Random(0)
        medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(RESAMPLES))
        return statistics.median(ratios), medians[RESAMPLES // 40], medians[-(RESAMPLES // 40) - 1]


def tokens_of(record: dict) -> float:
    return record["tokens_per_second"] * record["step_seconds"]


def turn(program: Program, count: int) -> float:
    """Lets `program` make its update number `count`. Returns its seconds."""
    start = program.seconds()
    program.go_on()
    program.wait_for_update(count)
    seconds = program.seconds() - start
    program.pause()
    return seconds


def compare(commands: dict[str, Callable[[pathlib.Path], list[str]]], work: pathlib.Path, rounds: int,
            limit: float) -> Comparison:
    """Runs the commands, made for a folder each, for WARM_UP + `rounds` updates."""
    with contextlib.ExitStack() as ends:
        programs = []
        for name, command_of in commands.items():
            folder = work / name.replace(" ", "-")
            folder.mkdir()
            program = ends.enter_context(Program(name, command_of(folder), folder, limit))
            program.wait_for_update(WARM_UP, LOOK_SECONDS)
            program.pause()
            programs.append(program)
        found = []
        for number in range(1, rounds + 1):
            pids = [pid for program in programs for pid in process_group(program.process.pid)]
            looks, seconds = [look(pids)], {}
            for program in programs if number % 2 else reversed(programs):
                seconds[program.name] = turn(program, WARM_UP + number)
                looks.append(look(pids))
            tokens = {program.name: tokens_of(program.records()[WARM_UP + number - 1]) for program in programs}
            found.append(Round(seconds, tokens, looks))
            print(f"  {number:3} " + "  ".join(f"{name} {1e3 * s:.0f} ms" for name, s in seconds.items()) +
                  ("" if found[-1].quiet else "  not quiet"), flush=True)
        for program in programs:
            program.look_at_memory()
        return Comparison(found, {p.name: p.memory() for p in programs},
                          {p.name: [r["loss"] for r in p.records()] for p in programs})
