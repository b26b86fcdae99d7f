"""Lines 1 to 86 of the catalog: the configuration file."""

import dataclasses
import json
import os
import subprocess

from case import CONFIGURATION, DONE, MACHINE, TRAINER, Case, as_nobody, can_be_nobody

GOOD = """distributed_type: 'NO'
use_cpu: true
seed: 7
output_dir: output
model:
  config: {model_type: t5, vocab_size: 400, d_model: 16, d_kv: 4, d_ff: 32, num_layers: 1, num_heads: 2}
tokenizer:
  path: ../tokenizer
data:
  train: {path: samples.txt, format: delimited, columns: [sentence, label]}
  source: sentence
  target: label
training:
  max_steps: 12
  learning_rate: 0.01
checkpoint:
  save_steps: 3
"""
SAMPLES = "profit rose@better\nprofit fell@worse\n" * 4
FILE = "job.yaml"


def with_(change, by=None):
    """The valid file with one text replaced; with only one argument, that text is appended."""
    if by is None:
        return GOOD + change
    assert change in GOOD, change
    return GOOD.replace(change, by)


def steps(value):
    return with_("max_steps: 12", "max_steps:" + value)


def rate(value):
    return with_("learning_rate: 0.01", "learning_rate: " + value)


def causal(model):
    """The valid file, for a language model."""
    text = with_("model_type: t5, vocab_size: 400, d_model: 16, d_kv: 4, d_ff: 32, num_layers: 1, num_heads: 2", model)
    return text.replace("  source: sentence\n  target: label\n", "  task: causal_lm\n  source: sentence\n  max_length: 64\n")


def file(line, what, content, *says, code=CONFIGURATION, name=FILE, command="launch", **more):
    """`content` as the configuration file."""
    def make(place):
        place.write("samples.txt", SAMPLES)
        place.write(name, content() if callable(content) else content)
        return [command, "--config_file", name]
    return Case(line, what, make, code, (name, *says) if code else says, **more)


def accepted(line, what, content, *says, **more):
    """An accepted file; `trainer explain` shows its effect."""
    return file(line, what, content, *says, code=DONE, command="explain", **more)


def unwritable(command):
    def make(place):
        place.write("samples.txt", SAMPLES)
        place.write(FILE, with_("output_dir: output", "output_dir: /proc/b"))
        return [command, "--config_file", FILE]
    return make


def checked(line, what, content, *says, code, **more):
    """A file whose problem is found only by reading the model and the data."""
    case = file(line, what, content, code=code, command="check", **more)
    return dataclasses.replace(case, says=says)


def prepared(line, what, prepare, *says, **more):
    """`prepare(place)` puts something at job.yaml."""
    def make(place):
        prepare(place)
        return ["launch", "--config_file", FILE]
    return Case(line, what, make, CONFIGURATION, (FILE, *says), **more)


def unreadable(place):
    place.write(FILE, GOOD).chmod(0)


def alias_bomb():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 20)]
    return "\n".join(levels) + "\n" + GOOD


def alias_chain(count):
    return "a0: &a0 [x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}]\n" for i in range(1, count)) + GOOD


def truncated_json():
    """Every prefix of a JSON configuration is refused, since JSON has an end."""
    text = json.dumps({"distributed_type": "NO", "use_cpu": True, "model": {"path": "m"},
                       "data": {"train": {"path": "samples.txt"}}, "training": {"max_steps": 12}})
    return [file(31, f"JSON cut at byte {at}", text[:at]) for at in range(0, len(text), 7)]


def truncated_yaml():
    """Block YAML has no end that could be missing: a prefix is accepted only if it ends with a complete value."""
    lines = GOOD.splitlines(keepends=True)
    return [file(31, f"YAML cut in line {i + 1}", "".join(lines[:i]) + line[:max(1, len(line) // 2)])
            for i, line in enumerate(lines[:10])] + [
        file(31, f"YAML cut after '{key}:'", GOOD[:GOOD.index(key + ":") + len(key) + 1], key, "has no")
        for key in ("training", "checkpoint", "save_steps", "learning_rate")]


def truncated_by_wizard():
    """The first line of a file that the wizard wrote announces its last line."""
    def make(place, part):
        path = place.write(FILE, GOOD)
        subprocess.run([TRAINER, "config", "--yes", "--config_file", FILE], cwd=place.folder, check=True,
                       capture_output=True, env={**os.environ, "HOME": str(place.folder)})
        place.write("samples.txt", SAMPLES)
        whole = path.read_bytes()
        path.write_bytes(whole[:int(len(whole) * part)])
        return ["launch", "--config_file", FILE]
    return [Case(31, f"the wizard's file cut after {percent} %", lambda place, part=percent / 100: make(place, part),
                 CONFIGURATION, (FILE, "truncated")) for percent in (10, 30, 50, 75, 90, 99)]


OTHER_TOOL = '{"name": "site", "version": "1.0.0", "scripts": {"build": "tsc"}, "dependencies": {"left-pad": "1.3.0"}}'
TOKEN = "hf_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3f"

LINES = [
    file(1, "an empty file", "", "empty"),
    file(2, "only comments", "# nothing\n# here\n", "empty"),
    file(3, "a list", "- a\n- b\n", "key: value", "a list"),
    file(4, "a scalar", "hello\n", "key: value", "hello"),
    prepared(5, "no file", lambda place: None, "No such file"),
    prepared(6, "a folder", lambda place: (place.folder / FILE).mkdir(), "folder"),
    prepared(7, "no permission", unreadable, "Permission denied", before=as_nobody(), needs=can_be_nobody),
    file(7, "a signing key that doesn't exist", with_("  save_steps: 3", "  save_steps: 3\n  sign: key.pem"),
         "checkpoint.sign", "key.pem", "No such file"),
    file(7, "a signing key that others can read", with_("  save_steps: 3", "  save_steps: 3\n  sign: job.yaml"),
         "checkpoint.sign", "chmod 600"),
    file(7, "a public key that isn't one", with_("  save_steps: 3", "  save_steps: 3\n  trusted_key: samples.txt"),
         "checkpoint.trusted_key", "samples.txt", "Ed25519"),
    prepared(8, "a named pipe", lambda place: os.mkfifo(place.folder / FILE), "not a regular file"),
    file(9, "2 MiB", lambda: GOOD + "#" * (2 << 20), "1048576"),
    file(10, "5 MB of [", lambda: "[" * 5_000_000, "1048576"),
    file(10, "1 MB of [", lambda: "[" * 1_000_000, "nested"),
    file(11, "5 MB of {a:", lambda: "{a: " * 1_250_000, "1048576"),
    file(11, "1 MB of {a:", lambda: "{a: " * 250_000, "nested"),
    file(12, "600 nested lists", "- " * 600 + "x\n", "nested"),
    file(13, "10,000 complex keys", "? " * 10_000, "key"),
    file(14, "a list that contains itself", with_("x: &a [*a]\n"), "alias"),
    file(15, "a map that contains itself", with_("x: &a {k: *a}\n"), "alias"),
    file(16, "an alias bomb", alias_bomb, "values"),
    file(17, "a long chain of aliases", lambda: alias_chain(40_000)),
    file(18, "an unknown alias", steps(" *undefined"), "alias"),
    checked(19, "a key twice with the same value gives a warning", with_("seed: 7\n"), "warning", "seed", "twice",
            "the same value", code=DONE, although="it has one meaning, and Accelerate takes it"),
    file(20, "a key twice with another value", with_("seed: 8\n"), "seed", "twice", "another value on line 3"),
    file(21, "a key twice, in another case", with_("Seed: 7\n"), "Seed", "seed"),
    file(22, "an unknown key", with_("  max_steps", "  max_step"), "training.max_step ", "max_steps"),
    file(23, "a key in the wrong section", with_("  max_steps: 12", "  save_steps: 12"), "save_steps", "checkpoint"),
    file(24, "a missing key", with_("  train: {path: samples.txt, format: delimited, columns: [sentence, label]}\n",
                                            ""), "data.train.path is required"),
    file(25, "two documents", with_("---\n" + GOOD), "document"),
    file(26, "tabs for indentation", with_("  max_steps", "\tmax_steps"), "tab"),
    file(27, "a double quote without end", with_("path: ../tokenizer", 'path: "../tokenizer'), "never closed"),
    file(28, "a single quote without end", with_("path: ../tokenizer", "path: '../tokenizer"), "never closed"),
    file(29, "a [ without end", with_("label]}", "label}"), "bracket"),
    file(30, "a { without end", with_("label]}", "label]"), "}"),
    truncated_json(),
    truncated_yaml(),
    truncated_by_wizard(),
    accepted(32, "a byte-order mark", b"\xef\xbb\xbf" + GOOD.encode(), "max_steps: 12"),
    file(33, "UTF-16", GOOD.encode("utf-16"), "UTF-16"),
    file(33, "UTF-16 without mark", GOOD.encode("utf-16-be"), "UTF-"),
    file(34, "UTF-32", GOOD.encode("utf-32"), "UTF-32"),
    file(34, "UTF-32 without mark", GOOD.encode("utf-32-le"), "UTF-32"),
    file(35, "invalid UTF-8", GOOD.encode() + b"# \xff\xfe\xc0\n", "UTF-8"),
    file(36, "a NUL byte in a key", with_("se\0ed: 7\n"), "zero byte"),
    file(37, "a NUL byte in a value", steps(" 1\0002"), "zero byte"),
    file(37, "an escaped NUL in a value", with_("path: ../tokenizer", 'path: "../tok\\0enizer"')),
    file(38, "line ends of classic Mac OS", GOOD.replace("\n", "\r"), "CR"),
    accepted(39, "line ends of Windows", GOOD.replace("\n", "\r\n"), "max_steps: 12"),
    file(40, "no-break spaces for indentation", with_("  max_steps", "\u00a0\u00a0max_steps")),
    file(41, "a key with a bidirectional mark", with_("\u202eseed: 7\n"), "\\u202eseed is not an option"),
    file(41, "a key with a zero-width space", with_("see\u200bd: 8\n"), "see\\u200bd is not an option"),
    file(42, "a key with a Cyrillic letter", with_("seed: 7", "s\u0435ed: 7"), "seed"),
    file(43, "another version of YAML", "%YAML 3.0\n---\n" + GOOD),
    file(44, "a tag of Python", steps(" !!python/object/apply:os.system ['true']"), "tag"),
    file(45, "binary rubbish", with_("path: ../tokenizer", "path: !!binary '@@@'"), "tag"),
    file(46, "a merge key", with_("base: &b {x: 1}\nlora:\n  <<: *b\n"), "merge"),
    file(47, "1e3 for an integer", steps(" 1e3"), "max_steps", "'1e3'", "write 1000"),
    accepted(47, "1e8 for an integer of Accelerate's part", with_("distributed_type: 'NO'", "distributed_type: FSDP\n"
             "num_processes: 2\nfsdp_config: {fsdp_auto_wrap_policy: SIZE_BASED_WRAP, fsdp_min_num_params: 1e8}"),
             "fsdp_min_num_params: 100000000",
             although="Accelerate's own default is spelled 1e8, and so are many of its users' files"),
    file(48, "1_000 for an integer", steps(" 1_000"), "max_steps", "'1_000'", "write 1000"),
    file(48, "1000.0 for an integer", steps(" 1000.0"), "max_steps", "'1000.0'", "write 1000"),
    file(49, "010 for an integer", steps(" 010"), "max_steps", "010"),
    file(50, "0x10 for an integer", steps(" 0x10"), "max_steps", "0x10"),
    file(51, "a quoted integer", steps(' "5"'), "max_steps", "'5'", "quotes", "write 5"),
    file(51, "a quoted fraction", rate('"0.01"'), "learning_rate", "'0.01'", "quotes"),
    file(51, "a quoted Boolean", with_("deterministic: 'false'\n"), "deterministic", "'false'", "quotes", "write false"),
    accepted(51, "a quoted integer of Accelerate's part", with_("distributed_type: 'NO'", "distributed_type: MULTI_CPU\n"
             "num_processes: '2'"), "num_processes: 2",
             although="its own files quote codes and Booleans (downcast_bf16: 'no', fsdp_version: '2')"),
    accepted(51, "a quoted variable", with_("  max_steps: 12", '  max_steps: "${TRAINER_TEST_STEPS:-12}"'),
             "max_steps: 12", although="between {} YAML needs the quotes for ${}"),
    file(52, "3.7 for an integer", steps(" 3.7"), "max_steps", "3.7"),
    file(53, "-1, which is out of range", with_("save_steps: 3", "save_steps: -1"), "save_steps", "-1"),
    file(54, "0 for a number of samples", with_("  max_steps: 12", "  per_device_train_batch_size: 0"),
         "per_device_train_batch_size", "0"),
    file(55, "an integer beyond 64 bits", steps(" 99999999999999999999"), "max_steps", "99999999999999999999"),
    file(56, "a Boolean for an integer", steps(" true"), "max_steps", "true"),
    accepted(57, "~ for an integer is its default", steps(" ~"), "max_steps: ",
             although="it was written on purpose: PEFT's and the Trainer's own files use null for default values"),
    file(58, "nothing for an integer", steps(""), "training.max_steps", "no value"),
    file(58, "nothing for a group", with_("evaluation:\n"), "evaluation", "no keys"),
    accepted(58, "nothing for a key of Accelerate's part", with_("gpu_ids:\nfsdp_config:\n"), "max_steps: 12",
             although="Accelerate reads it as the default, and templates list keys that way"),
    file(59, "a list for an integer", steps(" [5]"), "max_steps", "list"),
    file(60, "a map for an integer", steps(" {n: 5}"), "max_steps"),
    file(61, "NaN", rate(".nan"), "learning_rate", ".nan"),
    file(62, "infinity", rate(".inf"), "learning_rate", ".inf"),
    file(63, "a negative learning rate", rate("-1e-4"), "learning_rate", "-0.0001"),
    file(64, "a number that is 0 in 64 bits", rate("1e-400"), "learning_rate", "1e-400"),
    file(65, "a decimal comma", rate("1,000"), "learning_rate", "1,000"),
    file(66, "a truncated number", rate("3.0e-"), "learning_rate", "3.0e-"),
    file(67, "a Boolean for a name", with_("mixed_precision: true\n"), "mixed_precision", "true"),
    accepted(67, "no, which is false in YAML 1.1", with_("mixed_precision: no\n"), "mixed_precision: 'no'",
             although="it has one meaning here, and handwritten files have it without quotes"),
    file(68, "a misspelled name", with_("mixed_precision: bf17\n"), "mixed_precision", "bf16"),
    file(69, "fewer GPUs than ranks", with_("distributed_type: 'NO'\nuse_cpu: true", "distributed_type: "
         "MULTI_GPU\nuse_cpu: false\ngpu_ids: '0,1'\nnum_processes: 4"), "distributed_type"),
    file(69, "a GPU that is not a number", with_("distributed_type: 'NO'\nuse_cpu: true", "distributed_type: "
         "MULTI_GPU\nuse_cpu: false\ngpu_ids: first\nnum_processes: 1"), "gpu_ids is first", "not the index"),
    file(69, "a missing device", with_("distributed_type: 'NO'\nuse_cpu: true", "distributed_type: "
         "MULTI_GPU\nuse_cpu: false\ngpu_ids: '99'\nnum_processes: 1"), "distributed_type"),
    checked(70, "hidden not divisible by heads", causal("model_type: llama, vocab_size: 400, hidden_size: 15, "
            "num_attention_heads: 2"), "hidden_size", "num_attention_heads", code=CONFIGURATION),
    checked(71, "heads not divisible by key heads", causal("model_type: llama, vocab_size: 400, hidden_size: 16, "
            "num_attention_heads: 4, num_key_value_heads: 3"), "num_attention_heads", "num_key_value_heads",
            code=CONFIGURATION),
    checked(72, "longer than the model's positions", causal("model_type: gpt2, vocab_size: 400, n_embd: 16, n_head: 2, "
            "n_layer: 1, n_positions: 2"), "data.max_length", "64", "2", code=CONFIGURATION),
    checked(73, "a vocabulary smaller than the tokenizer's", with_("vocab_size: 400", "vocab_size: 300"), "vocab_size",
            "300", "367", code=CONFIGURATION),
    file(74, "adapters of rank 0", with_("lora: {r: 0, target_modules: [q]}\n"), "lora.r", "0"),
    checked(74, "adapters of a rank above every layer's size", with_("lora: {r: 64, target_modules: [q, wi]}\n"), "lora.r is 64",
            "16", code=CONFIGURATION),
    checked(74, "adapters of a rank above some layers' size", with_("lora: {r: 16, target_modules: [q, wi]}\n"), "16", code=DONE,
            although="all-linear includes small layers (a router, a head of 2 classes), and PEFT trains them"),
    checked(74, "adapters for no module", with_("lora: {r: 2, target_modules: [query]}\n"), "query", code=CONFIGURATION),
    file(75, "a global batch that is not the product of its parts", with_("distributed_type: 'NO'", "distributed_type: MULTI_CPU\n"
         "num_processes: 2").replace("  max_steps: 12", "  max_steps: 12\n  global_batch_size: 10\n"
         "  per_device_train_batch_size: 4\n  gradient_accumulation_steps: 2"), "global_batch_size", "10", "16"),
    accepted(75, "a global batch that ranks divide unevenly", with_("  max_steps: 12", "  max_steps: 12\n  global_batch_size: 10\n"
             "  per_device_train_batch_size: 4"), "global_batch_size: 10",
             although="the loss is divided once, by all target tokens: uneven parts give the same update"),
    checked(76, "more warm-up than steps gives a warning", with_("  max_steps: 12", "  max_steps: 12\n  warmup_steps: 50"),
            "warning", "warmup_steps", "50", "12", code=DONE,
            although="a short trial of a long run's file has it, and its updates are the long run's first ones"),
    file(77, "parallel sizes that don't multiply to the ranks", with_("distributed_type: 'NO'", "distributed_type: MULTI_CPU\n"
         "num_processes: 4\nparallelism_config: {parallelism_config_tp_size: 3}"), "3", "4"),
    accepted(78, "saving every 0 steps is saving at the end", with_("save_steps: 3", "save_steps: 0"), "save_steps: 0",
             although="the option is documented so, in its help and in the wizard's question"),
    file(78, "logging every 0 steps", with_("logging: {logging_steps: 0}\n"), "logging_steps", "0"),
    file(79, "the output folder in the data", with_("output_dir: output", "output_dir: data").replace(
        "path: samples.txt", "path: data"), "output_dir", "data.train.path"),
    accepted(80, "an output path with ..", with_("output_dir: output", "output_dir: a/../b"), "/b  #",
             although="a path like any other; the plan and every message show the resolved path"),
    accepted(80, "an output path with ~", with_("output_dir: output", "output_dir: ~/b"), "home/b",
             although="expanded as in a shell, and every message shows the result"),
    file(80, "an output path with $VAR", with_("output_dir: output", "output_dir: $HOME/b"), "output_dir", "${HOME}"),
    file(80, "an output path of 5,000 characters", lambda: with_("output_dir: output", "output_dir: " + "a/" * 2500)),
    [file(80, f"a name of 300 bytes in {option}", with_(old, f"{key}: a/{'x' * 300}/b"), option, "300", "255")
     for option, old, key in (("output_dir", "output_dir: output", "output_dir"),
                              ("tokenizer.path", "path: ../tokenizer", "path"),
                              ("data.train.path", "path: samples.txt", "path"))],
    [Case(80, f"an output path in which no folder can be made: {command}", unwritable(command), MACHINE, ("/proc/b",))
     for command in ("check", "launch")],
    file(80, "an output path with a newline", with_("output_dir: output", 'output_dir: "a\\nb"'), "output_dir"),
    file(81, "a secret from the environment", with_("path: ../tokenizer", "path: ${HF_TOKEN}"), "secret",
         silent=(TOKEN,), environment={"HF_TOKEN": TOKEN}),
    file(81, "a secret", with_("path: ../tokenizer", "path: " + TOKEN), "secret", silent=(TOKEN,)),
    file(81, "a secret in an unknown key", with_(f"token: {TOKEN}\n"), silent=(TOKEN,)),
    file(81, "a secret in an address", with_("path: ../tokenizer", "path: https://me:pass1234word@example.com/t5"),
         silent=("pass1234word",)),
    file(82, "300,000 keys", lambda: GOOD + "".join(f"{i:x}: \n" for i in range(130_000))),
    file(83, "a key of 2,000 characters", with_("k" * 2000 + ": 1\n")),
    file(84, "a scalar of 900 KB", lambda: steps(" " + "x" * 900_000), "max_steps"),
    file(85, "the JSON of another tool", OTHER_TOOL, "7 problems"),
    file(86, "an option of a newer version", with_("  max_steps: 12", "  max_steps: 12\n  teleport: true"),
         "training.teleport is not an option"),
]
