"""Lines 102 to 140 of the catalog: the data."""

import gzip
import json
import os
import pathlib
import struct
import zlib

from case import DONE, INPUT, TRAINER, Case

GOOD = '{"sentence": "profit rose", "label": "better"}\n'
PIECE = '{"sentence": "profit %s", "label": "better"}\n'


def job(place, path, *changes, **source):
    return place.job({"data": {"train": None, "validation": None, "max_samples": None}, "evaluation": None},
                     {"data": {"train": {"path": path, **source}}}, *changes)


def data(line, what, name, content, *says, code=INPUT, changes=(), source=None, **more):
    """`content` as the file of samples, for a run; accepted content is shown without a run."""
    def make(place):
        path = place.write(name, content() if callable(content) else content)
        words = ["tokenize", "--show", "1"] if code == DONE else ["launch"]
        return [*words, "--config_file", job(place, str(path), *changes, **(source or {}))]
    return Case(line, what, make, code, ((name,) if code else ()) + says, **more)


def accepted(line, what, name, content, *says, **more):
    return data(line, what, name, content, *says, code=DONE, **more)


def jsonl(line, what, record, *says, **more):
    """`record` as the second line."""
    content = GOOD.encode() + (record if isinstance(record, bytes) else record.encode()) + b"\n"
    return data(line, what, "samples.jsonl", content, "samples.jsonl:2", *says, **more)


def csv(line, what, content, *says, **more):
    return data(line, what, "samples.csv", content, *says, **more)


def glob(line, what, prepare, *says, pattern="samples/*.jsonl", code=INPUT, **more):
    def make(place):
        (place.folder / "samples").mkdir()
        prepare(place.folder / "samples")
        words = ["tokenize", "--show", "1"] if code == DONE else ["launch"]
        return [*words, "--config_file", job(place, str(place.folder / pattern))]
    return Case(line, what, make, code, says, **more)


def in_a_circle(place, changes):
    """`circle`: a link to itself, as what stands for anything that is there but can't be read."""
    (place.folder / "circle").symlink_to("circle")
    return ["launch", "--config_file", job(place, str(place.write("samples.jsonl", GOOD)), changes)]


def bomb():
    """One record of 1 GB, compressed to 1 MB."""
    pieces = [b'{"sentence": "', *[b"x" * (1 << 20)] * 1000, b'", "label": "b"}\n']
    compressor = zlib.compressobj(9, wbits=31)
    yield from map(compressor.compress, pieces)
    yield compressor.flush()


def long_line():
    yield GOOD.encode() + b'{"sentence": "'
    yield from [b"x" * 1_000_000] * 200


def table():
    """A Parquet file of 62 records."""
    return (pathlib.Path(__file__).resolve().parents[1] / "data/tables/reports.parquet").read_bytes()


def reads_tables():
    return pathlib.Path(TRAINER).with_name("libtrainer_arrow.so").exists()


def chat(line, what, messages, *says):
    record = messages if isinstance(messages, str) else json.dumps({"messages": messages})
    good = json.dumps({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]})
    return data(line, what, "samples.jsonl", good + "\n" + record + "\n", "samples.jsonl:2", *says, changes=[CHAT])


CHAT = {"model": {"config": {"model_type": "gpt2", "vocab_size": 400, "n_embd": 16, "n_head": 2, "n_layer": 1}},
        "data": {"task": "causal_lm", "source": None, "target": None, "dialogue": "messages", "chat_template": "chatml",
                 "max_source_length": None, "max_target_length": None}}
for key in ("d_model", "d_kv", "d_ff", "num_layers", "num_heads", "dropout_rate"):
    CHAT["model"]["config"][key] = None


def megatron(line, what, change, *says, **more):
    """A valid pair of .bin and .idx, damaged by `change(files)`."""
    def make(place):
        tokens = struct.pack("<8H", *range(1, 9))
        header = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 8, 2, 3)
        index = header + struct.pack("<2i", 4, 4) + struct.pack("<2q", 0, 8) + struct.pack("<3q", 0, 1, 2)
        files = {"play.bin": tokens, "play.idx": index}
        change(files)
        for name, content in files.items():
            place.write(name, content)
        return ["launch", "--config_file", job(place, str(place.folder / "play"), CHAT, {"data": {
            "dialogue": None, "chat_template": None, "megatron": {"sequence_length": 4}}}, format="megatron")]
    return Case(line, what, make, INPUT, says, **more)


def beyond_vocabulary(files):
    files["play.bin"] = struct.pack("<8H", 1, 2, 3, 4, 5, 60000, 7, 8)


def odd_length(files):
    files["play.bin"] = files["play.bin"][:-1]


def other_type(files):
    files["play.idx"] = files["play.idx"][:17] + b"\x63" + files["play.idx"][18:]


def a_loop(folder):
    (folder / "loop.jsonl").symlink_to("loop.jsonl")


def twice(folder):
    (folder / "a.jsonl").write_text(GOOD)
    (folder / "b.jsonl").symlink_to("a.jsonl")


LINES = [
    data(102, "an empty file", "samples.jsonl", ""),
    data(102, "an empty table", "samples.csv", ""),
    data(103, "only blank lines", "samples.jsonl", "\n \n\t\n"),
    accepted(104, "no line end at the end", "samples.jsonl", GOOD + GOOD[:-1], "profit rose"),
    data(105, "a truncated record", "samples.jsonl", GOOD + GOOD[:20], "samples.jsonl:2"),
    jsonl(106, "a list", "[1, 2]", "object"),
    jsonl(106, "a number", "7", "object"),
    jsonl(106, "null", "null", "object"),
    jsonl(106, "text", '"profit rose"', "object"),
    jsonl(107, "a missing column", '{"label": "better"}', "sentence"),
    jsonl(108, "null for text", '{"sentence": null, "label": "better"}', "data.source", "empty"),
    jsonl(108, "a list for text", '{"sentence": ["a"], "label": "better"}', "sentence"),
    jsonl(108, "an object for text", '{"sentence": {"a": {"b": 1}}, "label": "better"}', "sentence"),
    accepted(108, "a number for text becomes its digits", "samples.jsonl", '{"sentence": 2, "label": "profit"}\n', "profit",
             although="class labels and arithmetic are numbers; the text is read as written, without rounding"),
    jsonl(109, "a column twice", '{"sentence": "a", "sentence": "b", "label": "c"}', "twice"),
    jsonl(110, "invalid UTF-8", b'{"sentence": "\xff\xfe", "label": "c"}', "UTF-8"),
    jsonl(111, "half a surrogate pair", '{"sentence": "\\ud800", "label": "c"}'),
    jsonl(112, "an escaped NUL", '{"sentence": "a\\u0000b", "label": "c"}'),
    accepted(113, "a byte-order mark", "samples.jsonl", b"\xef\xbb\xbf" + GOOD.encode(), "profit rose",
             although="as in a configuration (32): Windows editors write it"),
    accepted(113, "a byte-order mark before a table", "samples.csv", b"\xef\xbb\xbfsentence,label\nprofit rose,better\n",
             "profit rose", although="Excel writes it"),
    data(114, "UTF-16", "samples.jsonl", GOOD.encode("utf-16"), "UTF-16"),
    data(114, "UTF-16 in a table", "samples.csv", "sentence,label\na,b\n".encode("utf-16-be"), "UTF-"),
    data(115, "a line of 200 MB", "samples.jsonl", long_line, "samples.jsonl:2"),
    jsonl(116, "nested 100,000 deep", '{"sentence": ' + "[" * 100_000),
    jsonl(117, "NaN", '{"sentence": NaN, "label": "c"}'),
    jsonl(117, "Infinity", '{"sentence": "a", "label": -Infinity}'),
    accepted(118, "a number beyond the range of a double becomes its digits", "samples.jsonl", '{"sentence": 1e999, "label": "profit"}\n',
             "profit", although="it is never converted to a double: it is five characters of text"),
    jsonl(119, "a trailing comma", '{"sentence": "a", "label": "c",}'),
    jsonl(120, "a comment", '{"sentence": "a", "label": "c"} // fine'),
    jsonl(120, "a line of comment", "# fine"),
    jsonl(121, "two objects on a line", GOOD.strip() * 2),
    data(122, "a tail of NULs", "samples.jsonl", GOOD.encode() + b"\0" * 4096, "samples.jsonl:2"),
    data(122, "a tail of NULs in a table", "samples.csv", b"sentence,label\na,b\n" + b"\0" * 4096, "samples.csv:3"),
    accepted(123, "gzip without the ending .gz", "samples.jsonl", gzip.compress(GOOD.encode()), "profit rose",
             although="its first bytes identify it, and JSON never begins with them"),
    data(124, "truncated gzip", "samples.jsonl.gz", lambda: gzip.compress((GOOD * 1000).encode())[:-40]),
    data(125, "a gzip bomb", "samples.jsonl.gz", bomb, "samples.jsonl.gz:1"),
    data(124, "Parquet by another name", "samples.jsonl", lambda: table()[:100], "format: parquet"),
    data(124, "a truncated Parquet file", "samples.parquet", lambda: table()[:-100], "damaged or incomplete", needs=reads_tables),
    data(124, "a damaged Parquet file", "samples.parquet", lambda: table()[:-40] + b"\xff" * 32 + table()[-8:],
         "damaged or incomplete", needs=reads_tables),
    data(124, "an encrypted Parquet file", "samples.parquet", b"PARE" * 20, "encrypted", needs=reads_tables),
    data(124, "text called Parquet", "samples.parquet", GOOD, "neither Parquet nor Arrow", needs=reads_tables),
    data(124, "a truncated Arrow stream", "samples.arrow", b"\xff\xff\xff\xff\x10\x27\x00\x00", "damaged or incomplete",
         needs=reads_tables),
    csv(126, "a quote that is never closed", 'sentence,label\na,b\n"c,d\n' + "e,f\n" * 100_000, "samples.csv:3"),
    csv(127, "too few columns", "sentence,label\na,b\nc\n", "samples.csv:3"),
    csv(127, "too many columns", "sentence,label\na,b\nc,d,e\n", "samples.csv:3"),
    csv(128, "a name twice", "sentence,label,label\na,b,c\n", "label"),
    csv(129, "no names", "\na,b\n"),
    csv(129, "an empty name", "sentence,\na,b\n"),
    csv(130, "another separator", "sentence;label\na;b\n", "sentence"),
    accepted(131, "line ends in quotes", "samples.csv", 'sentence,label\n"profit\nrose",better\n', "profit"),
    csv(132, "a quote in a field", 'sentence,label\na "b" c,d\ne" f,"g\n', "samples.csv"),
    csv(133, "line ends of classic Mac OS", "sentence,label\rprofit rose,better\r", "CR", "tr "),
    chat(134, "an unknown role", [{"role": "wizard", "content": "hi"}, {"role": "assistant", "content": "yes"}], "wizard"),
    chat(134, "no messages", []),
    data(134, "only an empty assistant message", "samples.jsonl",
         json.dumps({"messages": [{"role": "assistant", "content": ""}]}) + "\n", code=DONE, changes=[CHAT],
         although="the template decides about empty contents; the end of the turn is learned"),
    data(134, "the assistant first", "samples.jsonl", json.dumps({"messages": [
        {"role": role, "content": "profit"} for role in ("assistant", "user", "assistant")]}) + "\n", "profit", code=DONE,
         changes=[CHAT], although="role-play characters greet first; a template that forbids it refuses it itself"),
    chat(134, "no role", [{"content": "hi"}], "role"),
    chat(134, "no reply to learn", [{"role": "user", "content": "hi"}]),
    chat(134, "messages that are text", '{"messages": "hi"}', "messages"),
    data(135, "records without text", "samples.jsonl", '{"sentence": " ", "label": ""}\n' * 3),
    data(136, "a record without tokens", "samples.jsonl", GOOD + '{"sentence": "", "label": ""}\n'),
    megatron(137, "ids beyond the vocabulary", beyond_vocabulary, "play", "60000", may_write=("output",)),  # found when the sample is read
    megatron(138, "a length that its type does not divide", odd_length, "play"),
    megatron(138, "an unknown type", other_type, "play.idx"),
    glob(139, "a pattern that matches nothing", lambda folder: None, "samples/*.jsonl"),
    glob(139, "a missing file", lambda folder: None, "none.jsonl", pattern="samples/none.jsonl"),
    Case(140, "a data file that can't be looked at", lambda place: in_a_circle(place, {"data": {"train": {"path": str(
        place.folder / "circle")}}}), INPUT, ("circle", "Too many levels of symbolic links")),
    Case(140, "a tokenizer that can't be looked at", lambda place: in_a_circle(place, {"tokenizer": {"path": str(
        place.folder / "circle")}}), INPUT, ("circle", "Too many levels of symbolic links")),
    glob(140, "a pattern that matches a folder", lambda folder: (folder / "a.jsonl").mkdir(), "samples/*.jsonl"),
    glob(140, "a link to nothing", lambda folder: (folder / "a.jsonl").symlink_to("none"), "a.jsonl", "none"),
    glob(140, "a link to nothing, by name", lambda folder: (folder / "a.jsonl").symlink_to("none"), "a.jsonl",
         pattern="samples/a.jsonl"),
    glob(140, "a loop of links", a_loop, "loop.jsonl"),
    glob(140, "a loop of links, by name", a_loop, "loop.jsonl", pattern="samples/loop.jsonl"),
    glob(140, "a named pipe", lambda folder: os.mkfifo(folder / "a.jsonl"), "a.jsonl", pattern="samples/a.jsonl"),
    glob(140, "a pattern that matches a named pipe", lambda folder: os.mkfifo(folder / "a.jsonl"), "samples/a.jsonl"),
    glob(140, "a device", lambda folder: None, "/dev/zero", pattern="/dev/zero"),
    glob(140, "the same file twice", twice, "same file"),
]
