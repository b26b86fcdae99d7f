"""Writes docs/performance.md from the lines that `bench.py --json` has written: report.py RESULTS PAGE"""

import pathlib
import sys

import measurements
from scaling import LENGTH, table

HEAD = """# Performance beside the peer

Written by `tools/bench/all.sh`, which runs trainer and Accelerate + PEFT (torch 2.11, transformers 5.17, accelerate 1.15,
PEFT 0.21) on the same job: the same weights, batches, number of threads and dtype (fp32 if no other is named). All programs are in
memory, and one at a time makes an update (where they generate, a run); a ratio is the median over these, with its 95 % interval.
Rounds in which the machine's speed changed, or in which something else used it, aren't counted (`tools/bench/machine.py`), and
without enough of the others there is no ratio.
Memory is the peak of the largest process, and of all processes at a time; "without files" is that of all without the pages of
files, such as programs and mapped weights, which the system can drop and read again. Where the peer already runs at the processor's fp32 speed
(LLaMA and GPT-2 in blocks of 512 tokens, on all of these processors but Zen 5, of whose vector units MKL uses half), a ratio is
bounded by what it does besides its matrix products. Zen 3, 4 and 5 are family 25 model 1, family 25 model 17, and family 26. Rows of
an earlier day measured an earlier version.
"""

ROOFLINE = """## How near the processor's speed

`trainer profile` on the same job, after the comparison. "Products at peak" is the time that the matrix products of an update,
without attention's, would take at the speed of two 1024 x 1024 matrices in the same dtype on the same threads. No program that
computes these products can be faster, so the peer can't be beaten by more than the fifth column says.
"""


def job_of(line: dict) -> str:
    """The title without what all jobs share."""
    job, _, rest = line["title"].partition(", dropout")
    return job + "".join(kind for kind in (", bf16", ", base in nf4", ", activations saved in bfloat16", ", activations saved in int8") if kind in rest)


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


def without_files(row: dict) -> str:
    return f"{row['without_files'] / 1e6:.0f}" if "without_files" in row else ""


def comparison(results: dict) -> list[str]:
    if "void" in results:
        return [f"Void: {results['void']}."]
    lines = ["| program | tokens/s | updates/s | trainer is faster | largest process [MB] | together [MB] | without files [MB] | loss, first and last |",
             "|---|---|---|---|---|---|---|---|"]
    for name, row in results.items():
        lines.append(f"| {name} | {row['tokens_per_second']:.0f} | {row['updates_per_second']:.3f} | {ratio(row)} | "
                     f"{row['largest_process'] / 1e6:.0f} | {row['together'] / 1e6:.0f} | {without_files(row)} | "
                     f"{row['losses'][0]:.4f}, {row['losses'][1]:.4f} |")
    return lines


def is_times(results: dict) -> bool:
    return all(name.endswith("[s]") for name in results)


def summary(lines: list[dict]) -> list[str]:
    """A row for each comparison: how much faster, and what part of the peer's memory."""
    rows = ["| job | peer | faster | memory | without files | machine | day |", "|---|---|---|---|---|---|---|"]
    for line in lines:
        found = line["results"]
        if "void" in found:
            continue
        for table in found.values() if is_times(found) else [found]:
            for name, row in table.items():
                if "ratio" not in row:
                    continue
                part, kept = (f"{table['trainer'][key] / row[key]:.0%}" if key in row else ""
                              for key in ("largest_process", "without_files"))
                rows.append(f"| {job_of(line)} | {name} | {ratio(row)} | {part} | {kept} | "
                            f"{measurements.hardware(line)} | {line['day']} |")
    return rows


def roofline(lines: list[dict]) -> list[str]:
    """A row for each profile: how near an update is to the processor's speed, and how much faster than the peer that is."""
    rows = ["| job | products at peak | share of an update | products, attention, other | the peer could be beaten by | machine | day |",
            "|---|---|---|---|---|---|---|"]
    for line in lines:
        found, results = line.get("profile"), line["results"]
        if not found or "void" in results:
            continue
        share = [found["share"].get(work, 0) for work in ("product", "attention")]
        bounds = [f"{name}: {found['tokens'] / found['products_at_peak'] / row['tokens_per_second']:.2f}×"
                  for name, row in results.items() if name != "trainer"]
        rows.append(f"| {job_of(line)} | {found['products_at_peak']:.3f} s at "
                    f"{found['peak_flops'] / 1e9:.0f} GFLOP/s | {found['products_at_peak'] / found['seconds']:.0%} | "
                    f"{share[0]:.0%}, {share[1]:.0%}, {1 - sum(share):.0%} | {', '.join(bounds)} | "
                    f"{measurements.hardware(line)} | {line['day']} |")
    return rows


def profile_of(found: dict) -> list[str]:
    phases = ", ".join(f"{name} {1000 * seconds:.1f}" for name, seconds in found["phases"].items() if seconds >= 1e-4)
    operators = ", ".join(f"{row['name']} {1000 * row['seconds']:.1f}" for row in found["operators"])
    return [f"`trainer profile`, milliseconds of an update: {phases}. Operators: {operators}. Memory: "
            f"{found['tensor_bytes'] / 1e6:.0f} MB of tensors, {found['resident_bytes'] / 1e6:.0f} MB resident.", ""]


def cost_against_size(lines: list[dict]) -> list[str]:
    text = []
    for line in lines:
        text += ["## Cost against size", "", f"`{line['command']}`, {line['day']}, {line['machine']}. LLaMA, 768 wide, LoRA, samples of "
                 f"{LENGTH} tokens; the line goes through the smallest and the largest. More ranks share the same update.", "",
                 "![seconds of an update over tokens, layers and ranks](scaling.svg)", ""]
        for what, times in line["scaling"].items():
            text += [*table(what, {int(size): seconds for size, seconds in times.items()}), ""]
    return text


def main() -> None:
    results, page = map(pathlib.Path, sys.argv[1:])
    lines = measurements.read(results)
    scaling, lines = [line for line in lines if "scaling" in line], [line for line in lines if "scaling" not in line]
    text = [HEAD, *summary(lines), ""]
    if len(rows := roofline(lines)) > 2:
        text += [ROOFLINE, *rows, ""]
    text += cost_against_size(scaling)
    for line in lines:
        found = line["results"]
        text += [f"## {line['title']}", "", f"`{line['command']}`, {line['day']}, {line['machine']}", "",
                 *(times(found) if is_times(found) else comparison(found)), ""]
        if "profile" in line:
            text += profile_of(line["profile"])
    page.write_text("\n".join(text), encoding="utf-8")


if __name__ == "__main__":
    main()
