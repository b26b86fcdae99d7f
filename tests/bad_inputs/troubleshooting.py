#!/usr/bin/env python3
"""docs/troubleshooting.md: what each refused line of the catalog of bad inputs means, and what to do about it.

`TRAINER_BIN=… troubleshooting.py` runs all cases, and writes the page with the messages that it gets: cases of a line whose
messages differ only in names and numbers share a row. bad_inputs_test.py tests that the page has every case.
"""

import concurrent.futures
import pathlib
import re
import string

import command_lines
import config_lines
import convert_lines
import data_lines
import file_lines
import launch_lines
import model_lines
import preference_lines
import tokenizer_lines
from case import DONE, Case, Shared, expand, run

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/troubleshooting.md"
MARK = "<!-- Below: written by tests/bad_inputs/troubleshooting.py; don't edit. -->\n"
LONGEST = 170
STOPPED = 130  # by the user: no refusal
SAME = "as above"
BETWEEN = "; "  # cases of a row
AT_ONCE = 4
# What differs from machine to machine, and what stands for it.
OF_THIS_MACHINE = [(r"127\.0\.0\.1:\d{5}", "127.0.0.1:29500"), (r"process \d+ \(\w+\)", "process 1234 (python3)"),
                   (r"it has [\w, -]*\blo\b", "it has eth0, lo")]

# (title, the lines of the catalog)
SECTIONS = [
    ("The configuration file", config_lines), ("The command line", command_lines), ("The data", data_lines),
    ("The tokenizer", tokenizer_lines), ("Models, adapters and checkpoints", file_lines),
    ("Launching, and several machines", launch_lines), ("Converting other programs' files", convert_lines),
    ("Using a model, or a run", model_lines), ("Training on preferences", preference_lines)]

# (first line, last line, what to do)
REMEDIES = [
    (1, 4, "The file must hold lines of `key: value`. Start from `trainer config`, or from a file in `configs/`."),
    (5, 7, "Check the path and its permissions (`ls -l`). Relative paths are relative to the file that names them."),
    (8, 8, "Give a regular file. Write what a pipe or a process substitution holds into one first."),
    (9, 17, "It is hardly a configuration. Limits keep a damaged or hostile file from using up memory; keep lists of files "
            "in a folder or a pattern, not in the YAML."),
    (18, 18, "Define the anchor (`&name`) above its use (`*name`), or write the value out."),
    (20, 21, "Remove one of the two."),
    (22, 23, "Correct the key; the message names the nearest one, or the section in which it belongs. `trainer explain KEY` "
             "describes it."),
    (24, 24, "Add the key."),
    (25, 25, "Put each document into a file of its own; `---` may only stand at the top."),
    (26, 30, "Correct the YAML at the place shown. Indent with spaces; close quotes and brackets."),
    (31, 31, "The file was cut off by a full disk or an interrupted copy. Write or copy it again."),
    (33, 45, "Save the file as UTF-8 without special characters in its keys. Text copied from a web page or a chat can hold "
             "invisible ones: type the line again."),
    (46, 46, "Write the keys out; merge keys (`<<`) aren't read."),
    (47, 52, "Write integers in digits, without quotes: `1000`, not `1e3`, `1_000` or `'1000'`."),
    (53, 55, "Give a value within the range that the message names."),
    (56, 60, "Give one number. A key without value can be removed, or set to `null` for its default."),
    (61, 66, "Give a finite number with a decimal point: `3.0e-4`."),
    (67, 68, "Give one of the names listed. `no` is quoted where a name is expected: `'no'`."),
    (69, 69, "`distributed_type` and `num_processes` must fit this machine; `--cpu` tries the job on the CPU."),
    (70, 71, "Correct `model.config`, or use the model's own `config.json` by `model.path`."),
    (72, 72, "Lower `data.max_length` to at most the model's positions."),
    (73, 73, "Model and tokenizer don't belong together. Use the tokenizer of the model's folder, or raise `vocab_size` for a "
             "model from scratch."),
    (74, 74, "`r` is at least 1; `target_modules` are names of layers, which `trainer check` lists."),
    (75, 77, "Give the numbers that belong together: global batch = ranks × micro-batch × accumulation steps; the sizes of "
             "`parallelism_config` multiply to `num_processes`."),
    (78, 78, "Give a value within the range that the message names."),
    (79, 79, "Choose another `output_dir`, outside of the data."),
    (80, 80, "Correct the path; variables are written `${NAME}`."),
    (81, 81, "Set the variable, or remove it from the file. Write secrets into the environment, never into the file."),
    (82, 86, "The file belongs to another program or another version. Compare `trainer --version`."),
    (87, 95, "`trainer --help` lists the commands, and `trainer COMMAND --help` the flags of one."),
    (96, 98, "Give the answers by `--answers FILE`, or accept the defaults by `--yes`."),
    (100, 100, "Give a file that can be written."),
    (102, 103, "The file is empty. Check how it was made."),
    (105, 106, "Each line is one JSON object. Make the file again, or skip such records by `data.train.on_bad_sample: skip`."),
    (107, 107, "Correct `data.source` and `data.target`: they name columns; the message lists those of the record."),
    (108, 112, "Correct or remove the record at this line, or skip such records by `data.train.on_bad_sample: skip`."),
    (114, 114, "Convert it to UTF-8 (`iconv -f UTF-16 -t UTF-8`), or set `data.train.encoding`."),
    (115, 122, "Correct or remove the record at this line, or skip such records by `data.train.on_bad_sample: skip`."),
    (124, 125, "The compressed file is damaged or unreasonable. Download or compress it again."),
    (126, 130, "Correct the CSV at this line. `data.train.format`, `delimiter` and `columns` say how it is read."),
    (132, 132, "Double a quote inside of a quoted field (`\"\"`)."),
    (133, 133, "Save the file with LF or CR LF at the ends of lines."),
    (134, 134, "Correct the dialogue: roles that the chat template knows, in its order ([chat_templates.md]"
               "(chat_templates.md))."),
    (135, 136, "No record holds text to learn. `trainer tokenize --show 3 --config_file …` shows what is read."),
    (137, 138, "The `.bin` and `.idx` files belong to another tokenizer, or are damaged. Write them again: `trainer tokenize`."),
    (139, 140, "Correct `data.train.path`. Patterns match files, not folders; quote them in a shell."),
    (141, 141, "Set `tokenizer.path` to a folder with tokenizer files, or leave it out to use the model's."),
    (142, 163, "The tokenizer's file is damaged or was made by a faulty program. Download it again."),
    (164, 165, "The vocabulary is larger than any known one: the file is damaged. Download it again."),
    (166, 166, "Model and tokenizer don't belong together. Use the tokenizer of the model's folder."),
    (167, 192, "The file is damaged or incomplete. Download it again, and compare its size and checksum."),
    (193, 193, "Tensors are missing: the folder belongs to another architecture, or a shard was not downloaded."),
    (194, 195, "The file is damaged, or was made by a faulty program. Save it again with safetensors."),
    (196, 200, "The index doesn't fit its shards. Download all files of the model again, into one folder."),
    (201, 201, "Download or correct `config.json`. The message names the key."),
    (202, 202, "Convert the weights to safetensors once, with transformers' `save_pretrained`; pickled files can run code, so "
               "they aren't read."),
    (203, 203, "The adapter was trained on another base model, or its `adapter_config.json` doesn't fit its weights. "
               "`base_model_name_or_path` names its base."),
    (204, 204, "The checkpoint belongs to another model or other adapters. Give another `output_dir`, or "
               "`checkpoint.resume_from_checkpoint: false`."),
    (206, 209, "`trainer checkpoint verify RUN` reads all of it. Without a name, a run resumes from the newest checkpoint "
               "that is undamaged ([checkpoints.md](checkpoints.md))."),
    (210, 210, "Correct the output's name or the model ([exporting.md](exporting.md))."),
    (211, 213, "`num_processes` counts the ranks of all machines; `machine_rank` counts machines from 0."),
    (215, 216, "Give the address of machine 0 that the others reach: `--main_process_ip`, an address of one interface."),
    (217, 219, "Choose a free port above 1023, and an interface of this machine (`ip address`)."),
    (220, 220, "`trainer launch --new_secret FILE` makes one; `chmod 600` it ([several_machines.md](several_machines.md))."),
    (222, 222, "Another launcher's variables contradict each other or the flags. Unset them, or start as [clusters.md]"
               "(clusters.md) shows."),
    (230, 232, "Give the YAML of axolotl, LLaMA-Factory or TRL, or a JSON or YAML file of `TrainingArguments` ([converting.md]"
               "(converting.md))."),
    (233, 233, "Correct the values there, or remove the keys."),
    (234, 234, "Choose another file, or replace this one by `--overwrite`."),
    (235, 235, "`--model` takes the folder of a model or an adapter, or a checkpoint; samples come from `data.validation` or "
               "`--data` ([evaluating.md](evaluating.md))."),
    (236, 236, "A model's folder has `config.json`, an adapter's `adapter_config.json` ([generating.md](generating.md))."),
    (237, 237, "Give an adapter that changes weights, and a new folder ([merging.md](merging.md))."),
    (238, 238, "Give a new folder or file, and for GGUF a causal language model ([exporting.md](exporting.md))."),
    (239, 240, "Give the `output_dir` of a run that has started, and updates that it made."),
    (241, 242, "Give one of the names listed; `trainer COMMAND --help` has them."),
    (243, 243, "Give data that can be read, and a trace in a folder that exists ([profiling.md](profiling.md))."),
    (244, 245, "[preferences.md](preferences.md) lists the options of such a run, and where it runs."),
    (246, 247, "Correct or remove the record at this line; [preferences.md](preferences.md) lists the records that are read."),
]


def remedy(line):
    return next((text for first, last, text in REMEDIES if first <= line <= last), None)


def refused_cases(module):
    """The refused cases, in the order of the catalog's lines."""
    cases = [case for case in expand(module.LINES) if isinstance(case, Case) and case.code not in (DONE, STOPPED)]
    return sorted(cases, key=lambda case: case.line)  # cases of a line keep their order


def anchor(line, number):
    """Of the message `number` of a line, from 0: 22, 22b, 22c … 22z, 22ba …"""
    letters = ""
    while number > 0:
        number, letters = number // 26, string.ascii_lowercase[number % 26] + letters
    return f'<a id="{line}{letters}"></a>{line}{letters}'


def alike(message):
    """What messages have in common that differ only in names and numbers."""
    return re.sub(r"'[^']*'|\d+", "_", message)


def shown(case, outcome, place):
    """The message's first line, or the one that the case is about, for a cell of a table."""
    text = outcome.err[max(outcome.err.find("trainer: "), 0):].removeprefix("trainer: ") + outcome.out
    for folder in (place.folder, place.shared):
        text = text.replace(f"{folder}/", "").replace(str(folder), ".")
    lines = [line.strip() for line in text.strip().splitlines() if line.strip() and not re.fullmatch(r"[\s|^~]*", line)]
    lines = [line for line in lines if not re.fullmatch(r"\d+ problems?:?.*|.* is damaged\.", line)] or [""]
    if lines[0].endswith(":"):
        lines[0] = " ".join(lines[:2])
    line = next((line for line in lines if any(text in line for text in case.says)), lines[0])
    for pattern, stand_in in OF_THIS_MACHINE:
        line = re.sub(pattern, stand_in, line)
    return (line[:LONGEST] + "…" if len(line) > LONGEST else line).replace("|", "\\|").replace("`", "'")


def listed(given):
    """What was given; of several that differ only in names and numbers, the first."""
    kinds = {}
    for what in given:
        kinds.setdefault(alike(what), []).append(what)
    return BETWEEN.join(all[0] if len(all) == 1 else f"{all[0]} (and {len(all) - 1} alike)" for all in kinds.values())


def kinds_of(given):
    """The kinds of cases that listed() names."""
    return [alike(re.sub(r" \(and \d+ alike\)$", "", what)).strip() for what in given.split(BETWEEN)]


def table(module, shared):
    """(anchor, what was given, message, what to do), a row for each kind of message of a line."""
    cases = refused_cases(module)

    def message_of(case):
        place = shared.place()
        return shown(case, run(case, place, shared)[0], place)

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        messages = list(pool.map(message_of, cases))
    rows = {}  # by line and kind
    for case, message in zip(cases, messages):
        rows.setdefault((case.line, alike(message)), (message, []))[1].append(case.what)
    numbers = {}  # messages of a line so far
    for (line, _), (message, given) in rows.items():
        numbers[line] = numbers.get(line, -1) + 1
        yield anchor(line, numbers[line]), listed(given), message, remedy(line)


def written(shared):
    page = ""
    for title, module in SECTIONS:
        page += f"\n## {title}\n\n| | given | message | what to do |\n|---|---|---|---|\n"
        above = None
        for name, given, message, todo in table(module, shared):
            page += f"| {name} | {given} | {'`' + message + '`' if message else ''} | {SAME if todo == above else todo} |\n"
            above = todo
    return page


def main():
    shared = Shared()
    try:
        shared.make_model_and_run()
        page = PAGE.read_text()
        PAGE.write_text(page[:page.index(MARK) + len(MARK)] + written(shared))
    finally:
        shared.remove()


if __name__ == "__main__":
    main()
