#!/usr/bin/env python3
"""Makes token_models.json: small vocabularies of each model type, and the tokens that `tokenizers` gives for some texts.

Needs tokenizers==0.23.3. Each case is {"type", "options", "texts": [[text, [[id, begin, end], ...]], ...]}; the tokens
are null if the library raises an error. `--random N` makes N random vocabularies of each type instead and writes them
to `--output`, which the test reads if TOKEN_MODELS_GOLDEN names it.
"""

import argparse
import json
import pathlib
import random

from tokenizers import models

HERE = pathlib.Path(__file__).resolve().parent
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def bpe(vocab, merges, **options):
    given = dict(unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None, fuse_unk=False,
                 byte_fallback=False, ignore_merges=False) | options
    return {"type": "BPE", "options": {"vocab": numbered(vocab), "merges": merges} | given}


def unigram(pieces, unk_id=0, byte_fallback=False):
    return {"type": "Unigram", "options": {"vocab": pieces, "unk_id": unk_id, "byte_fallback": byte_fallback}}


def word_piece(vocab, **options):
    given = dict(unk_token="[UNK]", continuing_subword_prefix="##", max_input_chars_per_word=100) | options
    return {"type": "WordPiece", "options": {"vocab": numbered(vocab)} | given}


def word_level(vocab, unk_token):
    return {"type": "WordLevel", "options": {"vocab": numbered(vocab), "unk_token": unk_token}}


def numbered(vocab):
    return vocab if isinstance(vocab, dict) else {piece: id for id, piece in enumerate(vocab)}


def build(case):
    options = {name: value for name, value in case["options"].items() if value is not None}
    if case["type"] == "BPE":
        options["merges"] = [tuple(pair) for pair in options["merges"]]
    if case["type"] == "Unigram":
        options["vocab"] = [tuple(pair) for pair in options["vocab"]]
    return getattr(models, case["type"])(**options)


def tokens(model, text):
    try:
        return [[token.id, *token.offsets] for token in model.tokenize(text)]
    except Exception:  # the library raises no more specific class
        return None


def filled(case, texts):
    model = build(case)
    return case | {"texts": [[text, tokens(model, text)] for text in texts]}


RUN = [["a", "a"], ["aa", "aa"], ["aaaa", "a"], ["aa", "a"]]
RUN_VOCAB = ["<unk>", "a", "b", "aa", "aaaa", "aaaaa", "aaa"]
RUNS = ["", "a", "aa", "aaa", "aaaa", "aaaaa", "aaaaaa", "aaaaaaa", "a" * 30, "a" * 41, "ab" * 24, "aab" * 17,
        "b" + "a" * 60 + "b"]
WORDS = ["un", "related", "low", "lower", "newest", "unrelated", "x", "lowx", "xx", "xlow xx", "é", "lowé", "éé",
         "日本", "lo\u0301w", "😀", "a😀b", "\u2581low\u2581lower", "low" * 16, "é" * 24, "\x00", "\n",
         "<unk>", "low<unk>x"]
LOW = ["<unk>", "l", "o", "w", "e", "r", "\u2581", "lo", "low", "er", "\u2581low", "lower"]
LOW_MERGES = [["l", "o"], ["lo", "w"], ["e", "r"], ["\u2581", "low"], ["low", "er"]]
BYTE_SOME = BYTES[:0xC3] + ["<0xF0>", "<0xE6>"]
AFFIX = ["a", "b", "c", "##a", "##b", "##c", "a</w>", "##b</w>", "##c</w>", "ab", "abc</w>", "##bc</w>", "ab</w>",
         "<unk>"]
AFFIX_MERGES = [["a", "##b"], ["ab", "##c</w>"], ["##b", "##c</w>"], ["a", "##b</w>"]]
AFFIX_TEXTS = ["", "a", "b", "ab", "abc", "abcabc", "aabbcc", "xa", "ax", "xyx", "abx", "cba", "é", "a" * 48]
PIECES = [["<unk>", 0.0], ["a", 0.0], ["b", 0.0], ["c", 0.0], ["d", 0.0], ["cd", 1.0], ["ab", 2.0], ["abc", 5.0],
          ["abcd", 10.0]]
LOW_PIECES = [["<unk>", 0.0], ["\u2581", -2.0], ["\u2581low", -5.5], ["low", -6.25], ["er", -4.0], ["l", -7.0],
              ["o", -7.5], ["w", -8.0], ["e", -6.0], ["r", -6.5], ["é", -9.0], ["low", -6.25], ["日本", -9.5]]
UNIGRAM_TEXTS = WORDS + ["abcd", "abcdacdxx", "axxb", "xxabxx", "ddabc", "<unk>", "a<unk>x", "abc" * 16]
BERT = ["[PAD]", "[UNK]", "un", "##related", "low", "##er", "##est", "new", "##l", "##o", "##w", "l", "##é", "日", "##本",
        "##low", "x", "#", "##"]


def cases():
    for options in ({}, {"unk_token": "<unk>"}, {"unk_token": "<unk>", "fuse_unk": True}, {"unk_token": "[none]"}):
        yield filled(bpe(RUN_VOCAB, RUN, **options), RUNS + ["xa", "axxa", "xxx", "a" * 45 + "xx" + "a" * 45])
        yield filled(bpe(LOW, LOW_MERGES, **options), WORDS)
    for extra in (BYTES, BYTE_SOME):
        for fuse in (False, True):
            yield filled(bpe(LOW + extra, LOW_MERGES, unk_token="<unk>", fuse_unk=fuse, byte_fallback=True), WORDS)
    yield filled(bpe(LOW + BYTES, LOW_MERGES, byte_fallback=True), WORDS)
    yield filled(bpe(LOW, LOW_MERGES[:2], ignore_merges=True), WORDS)
    holes = {"a": 7, "b": 2, "ab": 90000, "ba": 5}
    yield filled(bpe(holes, [["a", "b"], ["b", "a"], ["a", "b"]]), ["ab", "ba", "aba", "bab" * 16])
    for options in ({"continuing_subword_prefix": "##"}, {"end_of_word_suffix": "</w>"},
                    {"continuing_subword_prefix": "##", "end_of_word_suffix": "</w>"}):
        merges = [["a", "b"], ["ab", "</w>"]]
        if "continuing_subword_prefix" in options:
            merges = AFFIX_MERGES if len(options) == 2 else [["a", "##b"]]
        vocab = AFFIX + ["</w>"]
        yield filled(bpe(vocab, merges, unk_token="<unk>", **options), AFFIX_TEXTS)
        yield filled(bpe(vocab + BYTES, merges, byte_fallback=True, **options), AFFIX_TEXTS)
    for pieces in (PIECES, LOW_PIECES):
        yield filled(unigram(pieces), UNIGRAM_TEXTS)
        yield filled(unigram(pieces, unk_id=None), UNIGRAM_TEXTS)
        for extra in (BYTES, BYTE_SOME):
            yield filled(unigram(pieces + [[piece, -3.0] for piece in extra], byte_fallback=True), UNIGRAM_TEXTS)
    yield filled(unigram(PIECES, unk_id=3), UNIGRAM_TEXTS)
    yield filled(word_piece(BERT), WORDS + ["##low", "#low", "##", "newest", "newlow"])
    yield filled(word_piece(BERT, continuing_subword_prefix="", max_input_chars_per_word=5),
                 WORDS + ["xxxxx", "xxxxxx", "ééééé"])
    yield filled(word_piece(BERT[2:]), WORDS)
    yield filled(word_piece(BERT, unk_token="x", max_input_chars_per_word=0), ["", "low"])
    yield filled(word_level(["<unk>", "low", "é"], "<unk>"), WORDS)
    yield filled(word_level(["low", "é"], "<unk>"), WORDS)


def random_piece(rng, alphabet, most):
    return "".join(rng.choice(alphabet) for _ in range(rng.randint(1, most)))


def random_bpe(rng, alphabet):
    known = rng.sample(alphabet, rng.randint(1, len(alphabet)))
    options = {"unk_token": rng.choice([None, "<unk>", known[0]]), "fuse_unk": rng.random() < 0.5,
               "byte_fallback": rng.random() < 0.4, "ignore_merges": rng.random() < 0.3}
    prefix, suffix = rng.choice(["", "", "", "#"]), rng.choice(["", "", "", "$"])
    options |= {"continuing_subword_prefix": prefix or None, "end_of_word_suffix": suffix or None}
    pieces = list(known)
    if prefix or suffix:
        pieces += [a + c + b for c in known for a in {"", prefix} for b in {"", suffix} if a or b]
    if options["byte_fallback"]:
        pieces += BYTES if rng.random() < 0.7 else rng.sample(BYTES, 120)
    starts = list(pieces)
    merges = []
    for _ in range(rng.randint(0, 60)):
        left, right = rng.choice(starts), rng.choice(starts)
        if len(left) > 40 or right == prefix or not right.startswith(prefix):
            continue
        merged = left + right[len(prefix):]
        merges.append([left, right])
        if merged not in pieces:
            pieces.append(merged)
        starts.append(merged)
    if rng.random() < 0.5:
        rng.shuffle(merges)
    pieces += [piece for piece in (random_piece(rng, alphabet, 5), "<unk>") if piece not in pieces]
    return bpe(pieces, merges, **options)


def random_unigram(rng, alphabet):
    fallback = rng.random() < 0.5
    pieces = list({random_piece(rng, alphabet, 4): None for _ in range(rng.randint(1, 60))})
    pieces = ["<unk>"] + pieces + (BYTES if fallback and rng.random() < 0.7 else [])
    score = (lambda: -float(rng.randint(0, 6))) if rng.random() < 0.5 else (lambda: rng.uniform(-15, 3))
    return unigram([[piece, score()] for piece in pieces], rng.choice([0, 0, 0, None, len(pieces) - 1]), fallback)


def random_word_piece(rng, alphabet):
    pieces = {rng.choice(["", "##"]) + random_piece(rng, alphabet, 4): None for _ in range(rng.randint(1, 60))}
    vocab = list(pieces | {"[UNK]": None})
    return word_piece(vocab, max_input_chars_per_word=rng.choice([100, 8]))


def random_cases(count):
    rng = random.Random(7)
    alphabets = ["ab", "abc\u2581", "aé日😀#$", "ab<0x>Cé", "abcdefghijklmnop"]
    for _ in range(count):
        for make in (random_bpe, random_unigram, random_word_piece):
            alphabet = rng.choice(alphabets)
            texts = [random_piece(rng, alphabet + "zé", rng.choice([3, 8, 20, 60, 150])) for _ in range(30)]
            yield filled(make(rng, alphabet), texts)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--output", default=HERE / "token_models.json")
    arguments = parser.parse_args()
    made = list(random_cases(arguments.random) if arguments.random else cases())
    with open(arguments.output, "w", encoding="utf-8") as out:
        out.write("[\n" + ",\n".join(json.dumps(case, separators=(",", ":")) for case in made) + "\n]\n")


if __name__ == "__main__":
    main()
