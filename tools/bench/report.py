"""Writes docs/performance.md from the lines that `bench.py --json` has written: report.py RESULTS PAGE"""

import json
import pathlib
import sys

HEAD = """# Performance beside the peer

Written by `tools/bench/all.sh`, which runs trainer and Accelerate + PEFT (torch 2.11, transformers 5.17, accelerate 1.15,
PEFT 0.21) on the same job: the same weights, batches, number of threads and fp32. All programs are in memory, and one at a
time makes an update; a ratio is the median over the updates, with its 95 % interval. Rounds in which the machine's speed changed,
or in which something else used it, aren't counted (`tools/bench/machine.py`), and without enough of the others there is no ratio.
Memory is the peak of the largest process, and of all processes at a time. Where the peer already runs at the processor's fp32 speed
(LLaMA and GPT-2 in blocks of 512 tokens), a ratio is bounded by what it does besides its matrix products. Rows of an earlier day
measured an earlier version.
"""


def ratio(row: dict) -> str:
    if "void" in row:
        return f"void: {row['void']}"
    return "{:.2f}× ({:.2f}–{:.2f})".format(*row["ratio"]) if "ratio" in row else ""


def times(results: dict) -> list[str]:
    lines = ["| | program | seconds | trainer is faster |", "|---|---|---|---|"]
    for what, rows in results.items():
        lines += [f"| {what.removesuffix(' [s]')} | {name} | {row['value']:.2f} | {ratio(row)} |"
                  for name, row in rows.items()]
    return lines


def comparison(results: dict) -> list[str]:
    if "void" in results:
        return [f"Void: {results['void']}."]
    lines = ["| program | tokens/s | updates/s | trainer is faster | largest process [MB] | together [MB] | loss, first and last |",
             "|---|---|---|---|---|---|---|"]
    for name, row in results.items():
        lines.append(f"| {name} | {row['tokens_per_second']:.0f} | {row['updates_per_second']:.3f} | {ratio(row)} | "
                     f"{row['largest_process'] / 1e6:.0f} | {row['together'] / 1e6:.0f} | "
                     f"{row['losses'][0]:.4f}, {row['losses'][1]:.4f} |")
    return lines


def is_times(results: dict) -> bool:
    return all(name.endswith("[s]") for name in results)


def summary(lines: list[dict]) -> list[str]:
    """A row for each comparison: how much faster, and what part of the peer's memory."""
    rows = ["| job | peer | faster | memory | machine | day |", "|---|---|---|---|---|---|"]
    for line in lines:
        found = line["results"]
        if "void" in found:
            continue
        for table in found.values() if is_times(found) else [found]:
            for name, row in table.items():
                if "ratio" not in row:
                    continue
                memory = "largest_process" in row
                part = f"{table['trainer']['largest_process'] / row['largest_process']:.0%}" if memory else ""
                rows.append(f"| {line['title'].split(', dropout')[0]} | {name} | {ratio(row)} | {part} | "
                            f"{line['machine'].split(', Linux')[0]} | {line['day']} |")
    return rows


def main() -> None:
    results, page = map(pathlib.Path, sys.argv[1:])
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    text = [HEAD, *summary(lines), ""]
    for line in lines:
        found = line["results"]
        text += [f"## {line['title']}", "", f"`{line['command']}`, {line['day']}, {line['machine']}", "",
                 *(times(found) if is_times(found) else comparison(found)), ""]
    page.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
