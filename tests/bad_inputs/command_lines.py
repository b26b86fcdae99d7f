"""Lines 87 to 101 of the catalog: the command line and the wizard."""

import pathlib
import sys

from case import CONFIGURATION, DONE, INPUT, MACHINE, Case, as_nobody, can_be_nobody

INTERRUPTED = 130
ON_TERMINAL = str(pathlib.Path(__file__).with_name("on_terminal.py"))
HELP = {"tells_on_output": True, "most_lines": 40}  # a call without arguments prints the help
CLOSED_INPUT = ("sh", "-c", 'exec "$0" "$@" <&-')


def words(line, what, arguments, *says, **more):
    """Only arguments, next to a valid job.yaml."""
    def make(place):
        place.job()
        return arguments
    return Case(line, what, make, CONFIGURATION, says, **more)


def launch(line, what, arguments, *says, **more):
    return words(line, what, ["launch", "--config_file", "job.yaml", *arguments], *says, **more)


def wizard(line, what, *says, code=CONFIGURATION, prepare=lambda place: None, file="new.yaml", **more):
    def make(place):
        prepare(place)
        return ["config", "--config_file", file]
    return Case(line, what, make, code, says, **more)


def on_terminal(columns, keys):
    return (sys.executable, ON_TERMINAL, str(columns), repr(keys))


def an_old_file(place):
    return place.write("new.yaml", "distributed_type: 'NO'\nuse_cpu: true\nseed: 77\n")


def a_link(place):
    place.write("elsewhere.yaml", "distributed_type: 'NO'\nuse_cpu: true\nseed: 77\n")
    (place.folder / "new.yaml").symlink_to("elsewhere.yaml")


def wrote(name, text):
    """Checks the file that the wizard wrote."""
    def check(place, _):
        path = place.folder / name
        return "" if path.exists() and text in path.read_text() else f"{name} has no {text!r}"
    return check


def link_stays(place, outcome):
    if not (place.folder / "new.yaml").is_symlink():
        return "the link is gone"
    return wrote("elsewhere.yaml", "seed: 77")(place, outcome)


def read_only(place):
    (place.folder / "fixed").mkdir(mode=0o555)


LINES = [
    words(87, "no command", [], "trainer COMMAND", **HELP),
    words(87, "no subcommand", ["checkpoint"], "trainer checkpoint", **HELP),
    words(88, "an unknown command", ["lanch"], "lanch", "launch"),
    words(88, "an unknown subcommand", ["checkpoint", "verfy", "x"], "verfy", "verify"),
    words(89, "an unknown flag of env", ["env", "--jsn"], "--jsn", "--json"),
    words(89, "an unknown flag of estimate-memory", ["estimate-memory", ".", "--dtype", "fp32"], "--dtype", "--dtypes"),
    words(89, "an unknown flag of test", ["test", "--config_fil", "job.yaml"], "--config_fil", "--config_file"),
    words(89, "an unknown flag of cache", ["cache", "--cache_dri", "x"], "--cache_dri"),
    words(89, "no limit to prune the cache to", ["cache", "prune"], "--older_than", "--max_size"),
    words(89, "a size to prune to that is none", ["cache", "prune", "--max_size", "many"], "--max_size", "many"),
    words(89, "an unknown flag of merge", ["merge", "a:1", "b:1", "c", "--combinaton", "cat"], "--combinaton", "--combination"),
    words(89, "an unknown combination", ["merge", "a:1", "b:1", "c", "--combination", "tie"], "--combination", "tie"),
    words(89, "adapters without weights", ["merge", "a", "b", "c"], "a has no weight", "b has no weight", "a:0.5"),
    words(89, "a weight that is none", ["merge", "a:much", "b:inf", "c"], "much", "inf", "not a number"),
    words(89, "a density for a sum", ["merge", "a:1", "b:1", "c", "--density", "0.5"], "--density", "svd", "ties"),
    words(89, "a density of 0", ["merge", "a:1", "b:1", "c", "--combination", "ties", "--density", "0"], "--density 0"),
    words(89, "a rank of 0", ["merge", "a:1", "b:1", "c", "--rank", "0"], "--rank 0", "at least 1"),
    words(89, "an unknown flag of profile", ["profile", "job.yaml", "--step", "3"], "--step", "--steps"),
    words(89, "a profile of no updates", ["profile", "job.yaml", "--steps", "0", "--warmup", "-1"], "--steps 0", "--warmup -1"),
    words(89, "a trace in a folder", ["profile", "job.yaml", "--trace", "."], "--trace", "is a folder"),
    words(89, "a page of no command", ["man", "lanch"], "lanch", "launch"),
    launch(89, "an unknown flag", ["--num_procceses", "2"], "--num_procceses", "--num_processes"),
    launch(90, "a flag twice, with the last one wrong", ["--num_processes", "1", "--num_processes", "x"], "num_processes"),
    Case(90, "an option twice: the last one counts", lambda place: (place.job(), [
        "explain", "--config_file", "job.yaml", "--set", "seed=1", "--set", "seed=2"])[1], DONE, ("seed: 2  # --set",),
         although="argparse does so, and scripts of Accelerate's and torchrun's users append flags to a command"),
    words(90, "a file twice, the last one missing", ["launch", "--config_file", "job.yaml", "--config_file", "none.yaml"],
          "none.yaml"),
    words(91, "a flag without value", ["launch", "--config_file"], "--config_file"),
    launch(91, "another without value", ["--num_processes"], "num_processes"),
    words(91, "no model to estimate", ["estimate-memory"], "MODEL"),
    words(92, "an unknown dtype to estimate", ["estimate-memory", ".", "--dtypes", "float8"], "--dtypes", "float8"),
    words(92, "text for a number to estimate", ["estimate-memory", ".", "--batch_size", "many"], "--batch_size", "many"),
    words(91, "an export without a destination", ["export", "."], "OUTPUT"),
    words(92, "an unknown format to export", ["export", ".", "x", "--format", "ggml"], "--format", "gguf"),
    words(92, "an unknown type to export", ["export", ".", "x.gguf", "--format", "gguf", "--type", "q4_0"], "--type", "q8_0"),
    words(92, "a GGUF type for a folder", ["export", ".", "x", "--type", "q8_0"], "--type", "--format gguf"),
    words(92, "a dtype for a GGUF file", ["export", ".", "x.gguf", "--format", "gguf", "--dtype", "float16"], "--dtype",
          "--type"),
    Case(92, "a folder without a model to export", lambda place: ["export", ".", "x"], INPUT, ("config.json",)),
    Case(92, "a folder that is missing to export", lambda place: ["export", "none", "x"], INPUT, ("none",)),
    words(92, "text for a number to test", ["test", "--config_file", "job.yaml", "--num_processes", "x"], "--num_processes",
          "The test failed"),
    launch(92, "text for a number", ["--set", "training.learning_rate=abc"], "--set", "learning_rate", "abc"),
    launch(93, "an unknown key", ["--set", "nokey=1"], "--set", "nokey"),
    launch(93, "no key at all", ["--set", "=1"], "--set"),
    launch(93, "no value at all", ["--set", "seed"], "--set seed"),
    launch(94, "an argument that is not UTF-8", ["--set", b"seed=\xff\xfe"], "seed"),
    launch(94, "a flag that is not UTF-8", [b"--\xff\xfe", "1"]),
    words(94, "a file name that is not UTF-8", ["launch", "--config_file", b"\xff.yaml"], "cannot read"),
    # Linux limits an argument to 128 KiB.
    launch(95, "a flag of 100 KB", ["--" + "x" * 100_000]),
    launch(95, "a value of 100 KB", ["--set", "seed=" + "x" * 100_000], "seed"),
    words(95, "a command of 100 KB", ["x" * 100_000]),
    wizard(96, "input that is closed", before=CLOSED_INPUT),
    wizard(97, "input that ends before the last question", stdin=b"1\n\nyes\n"),
    wizard(97, "input that ends within a line", stdin=b"1"),
    wizard(98, "an answer of 1 MB", stdin=b"x" * 1_000_000 + b"\n"),
    wizard(99, "no TERM", code=INTERRUPTED, before=("env", "-u", "TERM", *on_terminal(80, b"\x03"))),
    wizard(99, "a terminal of one column", code=INTERRUPTED, before=on_terminal(1, b"\x03")),
    wizard(99, "a terminal of no columns", code=INTERRUPTED, before=on_terminal(0, b"\x03")),
    Case(100, "an existing output file supplies the defaults",
         lambda place: (an_old_file(place), ["config", "--yes", "--config_file", "new.yaml"])[1], DONE,
         check=wrote("new.yaml", "seed: 77"), although="`accelerate config` overwrites it; trainer keeps its values"),
    Case(100, "an output file that is a link", lambda place: (a_link(place), ["config", "--yes", "--config_file",
                                                                              "new.yaml"])[1], DONE, check=link_stays,
         although="the user keeps the file elsewhere: the target is written, and the link stays"),
    wizard(100, "an output file that is a folder", prepare=lambda place: (place.folder / "new.yaml").mkdir()),
    Case(100, "a folder that is read-only",
         lambda place: (read_only(place), ["config", "--yes", "--config_file", "fixed/new.yaml"])[1], MACHINE,
         ("fixed", "permission"), before=as_nobody(), needs=can_be_nobody),
    wizard(101, "Ctrl-C in the wizard", code=INTERRUPTED, before=on_terminal(80, b"\x03")),
    wizard(101, "Ctrl-C while an old file is changed", code=INTERRUPTED, prepare=an_old_file,
           before=on_terminal(80, b"\x03")),
]
