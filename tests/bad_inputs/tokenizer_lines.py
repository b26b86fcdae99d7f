"""Lines 141 to 166 of the catalog: the tokenizer, as a SentencePiece model and as tokenizer.json."""

import json
import random
import struct

from case import CONFIGURATION, DONE, INPUT, Case

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
CHARSMAP_UNITS = 256


def varint(value):
    out = b""
    while value >= 128:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number_field(field, value):
    return varint(field << 3) + varint(value)


def bytes_field(field, content):
    return varint(field << 3 | 2) + varint(len(content)) + content


def piece(text, score=-1.0, kind=NORMAL):
    text = text if isinstance(text, bytes) else text.encode()
    return bytes_field(1, bytes_field(1, text) + varint(2 << 3 | 5) + struct.pack("<f", score) + number_field(3, kind))


def pieces(*more, unknown=1):
    begin = piece("<pad>", 0, CONTROL) + piece("</s>", 0, CONTROL) + piece("<unk>", 0, UNKNOWN) * unknown
    return begin + b"".join(piece(letter) for letter in "\u2581abcdefghijklmnopqrstuvwxyz") + b"".join(more)


def spec(*fields):
    return bytes_field(2, b"".join(fields))


def charsmap(content):
    return pieces() + bytes_field(3, bytes_field(2, content))


def crafted_trie(seed):
    units = random.Random(seed).randbytes(4 * CHARSMAP_UNITS)
    return struct.pack("<I", len(units)) + units + b"x\0"


def model(line, what, content, *says, code=INPUT, name="spiece.model", **more):
    """`content` as the tokenizer's file."""
    def make(place):
        path = place.write("tokenizer/" + name, content(place) if callable(content) else content)
        return ["tokenize" if code == DONE else "launch", *(["--show", "1"] if code == DONE else []), "--config_file",
                place.job({"tokenizer": {"path": str(path.parent)}})]
    return Case(line, what, make, code, ((name,) if code else ()) + says, **more)


def accepted(line, what, content, *says, **more):
    return model(line, what, content, *says, code=DONE, **more)


def good(place):
    return (place.tokenizer / "spiece.model").read_bytes()


VOCABULARY = {"<unk>": 0, "</s>": 1, "a": 2, "b": 3, "ab": 4}
JSON = {"version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None, "decoder": None,
        "model": {"type": "BPE", "vocab": VOCABULARY, "merges": ["a b"], "unk_token": "<unk>"}}


def tokenizer_json(line, what, change, *says, **more):
    """A valid tokenizer.json with changes to it or to its model; text replaces the whole file."""
    content = change if isinstance(change, (str, bytes)) else json.dumps({**JSON, **change})
    return model(line, what, content, *says, name="tokenizer.json", **more)


def deep(key):
    """An object with 200,000 nested lists, all of them closed: valid JSON."""
    return f'{{"{key}": ' + "[" * 200_000 + "]" * 200_000 + "}"


def tokenizer_config(line, what, text, *says):
    """A good SentencePiece model next to a tokenizer_config.json of this text."""
    def make(place):
        place.write("tokenizer/spiece.model", good(place))
        return ["launch", "--config_file", place.job({"tokenizer": {"path": str(
            place.write("tokenizer/tokenizer_config.json", text).parent)}})]
    return Case(line, what, make, INPUT, ("tokenizer_config.json", *says))


def of_model(**change):
    return {"model": {**JSON["model"], **change}}


def added(token):
    return {"added_tokens": [{"content": "<x>", "special": True, "id": 5, **token}]}


def millions_of_pieces(_):
    yield pieces()
    yield from [piece("p") * 1000] * 4001


def of_another_model(place):
    """A model folder with the tokenizer of a larger model."""
    letters = {f"letter{i}": i for i in range(5, 401)}
    path = place.write("tokenizer/tokenizer.json", json.dumps({**JSON, **of_model(vocab={**VOCABULARY, **letters})}))
    return ["launch", "--config_file", place.job({"model": {"config": None, "path": str(place.base_model())},
                                                  "tokenizer": {"path": str(path.parent)}})]


LINES = [
    Case(141, "no folder", lambda place: ["launch", "--config_file", place.job({"tokenizer": {"path": str(
        place.folder / "none")}})], INPUT, ("none", "no such folder")),
    Case(141, "an empty folder", lambda place: ((place.folder / "t").mkdir(), ["launch", "--config_file", place.job(
        {"tokenizer": {"path": str(place.folder / "t")}})])[1], INPUT, ("tokenizer.json",)),
    model(142, "0 bytes", b""),
    tokenizer_json(142, "0 bytes of tokenizer.json", ""),
    model(143, "4 KB of rubbish", random.Random(143).randbytes(4096)),
    tokenizer_json(143, "4 KB of rubbish in tokenizer.json", random.Random(143).randbytes(4096)),
    model(144, "the first half", lambda place: good(place)[:len(good(place)) // 2]),
    tokenizer_json(144, "the first half of tokenizer.json", json.dumps(JSON)[:200], "tokenizer.json:1"),
    model(145, "JSON instead of a protocol buffer", '{"version": "1.0"}'),
    model(146, "no unknown piece", pieces(unknown=0), "unknown"),
    tokenizer_json(146, "an unknown token that is not in the vocabulary", of_model(unk_token="<none>"), "<none>"),
    model(147, "two unknown pieces", pieces(unknown=2), "unknown"),
    model(148, "a piece twice", pieces(piece("a")), "a"),
    tokenizer_json(148, "an id twice", of_model(vocab={**VOCABULARY, "c": 2}), "2"),
    [tokenizer_json(149, f"no pieces at all, {kind['type']}", {"model": kind}, "vocab", "has no pieces")
     for kind in ({**JSON["model"], "vocab": {}, "merges": []}, {"type": "WordLevel", "vocab": {}, "unk_token": "<unk>"},
                  {"type": "WordPiece", "vocab": {}, "unk_token": "<unk>"},
                  {"type": "Unigram", "vocab": [], "unk_id": None})],
    model(149, "an empty piece", pieces(piece("")), "piece 30", "empty"),
    model(150, "a piece with NUL", pieces(piece("\0")), "piece 30", "NUL"),
    model(151, "a piece of 200 KB", pieces(piece("x" * 200_000)), "piece 30", "200000 bytes"),
    tokenizer_json(151, "a token of 200 KB", of_model(vocab={**VOCABULARY, "x" * 200_000: 5}), code=DONE,
                   although="the format has no limit, and only SentencePiece crashes on it"),
    model(152, "a piece that is not UTF-8", pieces(piece(b"\xff\xfe")), "piece 30", "UTF-8"),
    tokenizer_json(152, "invalid UTF-8 in tokenizer.json", b'{"version": "\xff"}'),
    model(153, "the score NaN", pieces(piece("zz", float("nan"))), "piece 30", "nan"),
    model(154, "the score infinity", pieces(piece("zz", float("inf"))), "piece 30", "inf"),
    model(154, "the score -infinity", pieces(piece("zz", float("-inf"))), "piece 30", "-inf"),
    model(155, "an unknown type of piece", pieces(piece("zz", -1, 99)), "piece 30", "99"),
    model(156, "an unknown type of model", pieces() + spec(number_field(3, 17)), "17"),
    tokenizer_json(156, "an unknown type of model in tokenizer.json", of_model(type="Magic"), "Magic"),
    model(157, "a byte piece <0xZZ>", pieces(piece("<0xZZ>", -1, BYTE)), "<0xZZ>"),
    model(157, "a byte piece <0x-1>", pieces(piece("<0x-1>", -1, BYTE)), "<0x-1>"),
    model(158, "255 byte pieces of 256", pieces(*[piece(f"<0x{byte:02X}>", -1, BYTE) for byte in range(255)]) + spec(
        number_field(35, 1)), "256"),
    model(159, "a normalization table of 1 byte", charsmap(b"x"), "normalization table"),
    model(160, "a normalization table of 2^32 - 1 bytes", charsmap(b"\xff" * 4 + b"x" * 100), "normalization table"),
    [model(161, f"a crafted normalization table, {seed}", charsmap(crafted_trie(seed)), "normali") for seed in range(3)],
    model(162, "a length of 2^31 - 1 in a file of 10 bytes", (b"\x0a" + varint(2**31 - 1) + b"xxxxxxxxxx")[:10],
          "2147483647"),
    model(163, "200,000 nested groups", b"\x0b" * 200_000),
    tokenizer_json(163, "100,000 nested lists", '{"model": ' + "[" * 100_000, "tokenizer.json:1"),
    tokenizer_json(163, "200,000 nested lists, closed", deep("model"), "tokenizer.json:1", "deeper"),
    tokenizer_config(163, "200,000 nested lists in tokenizer_config.json", deep("extra"), "deeper"),
    tokenizer_json(164, "an id above the limit", added({"id": 2**24 + 1})),
    tokenizer_json(164, "a negative id", added({"id": -1})),
    tokenizer_json(164, "an added token with the id of another", added({"id": 2}), code=DONE,
                   although="the tokenizers package renumbers added tokens, whatever id the file gives"),
    tokenizer_json(164, "an id in the vocabulary that is negative", of_model(vocab={**VOCABULARY, "c": -1})),
    tokenizer_json(164, "an id in the vocabulary of 2^40", of_model(vocab={**VOCABULARY, "c": 2**40})),
    model(164, "a special id beyond the pieces", pieces() + spec(number_field(42, 5000)), code=DONE,
          although="the field records a training option; the piece itself determines the id"),
    model(165, "4,000,001 pieces", millions_of_pieces, "4000000"),
    Case(166, "a vocabulary larger than the embedding", of_another_model, INPUT, ("400 rows", "401 ids")),
    Case(166, "a vocabulary larger than the configured embedding", lambda place: [
        "launch", "--config_file", place.job({"model": {"config": {"vocab_size": 300}}})], CONFIGURATION,
         ("job.yaml", "vocab_size", "300", "367")),
]
