#!/usr/bin/env python3
"""Compares the program's tokenizers with another library's on many strings: ids, and the text decoded from them.

Needs tokenizers==0.23.3. compare_tokenizers.py [--with LIBRARY] [--strings N] [--seed N] TRAINER_BINARY [FOLDER …]
--with tokenizers (the default): FOLDERs contain a tokenizer.json, or GPT-2's files (default: the folders in json/)
--with transformers: AutoTokenizer's result for a folder, such as one saved by `trainer`
--with sentencepiece: FOLDERs contain a .model; ids only, with sentencepiece for the text between special tokens

First compares every character of Unicode 14 by itself, between two letters. Characters that differ (libraries use
different versions of Unicode) are listed and excluded from the second part: N (a million) strings, half of them from
real texts, half random ones with all planes, marks, emoji, control characters, long runs and added tokens. Exit status 1
if one of these differs.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unicodedata

from tokenizers import Tokenizer, decoders, models, pre_tokenizers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
CHUNK = 50_000
SPACES = "  \t\u00a0\u2003\u3000\u2028\u0085\u200b\u1680"
MARKS = "\u0300\u0301\u0302\u0323\u0327\u05b0\u093f\u0e31\u20e3\ufe0f\u200d\u200c\u1160\u11a8"
EMOJI = ["\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", "\U0001f44d\U0001f3fd", "\U0001f6a2", "\u2764\ufe0f"]


def real_lines():
    """Lines of this repository's examples and, if present, of the shared data."""
    files = sorted((ROOT / "data" / "examples").glob("*.txt"))
    files += sorted(path for path in (ROOT.parent / "shared" / "data").glob("*/*") if path.suffix in (".txt", ".json", ".csv")
                    and path.name not in ("vocab.json", "merges.txt", "tokenizer.json"))
    lines = []
    for path in files:
        lines += path.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line.replace("\r", "").replace("\n", "") for line in lines if line.strip()]


def one_line(text):
    """The program reads one string per line: removes line feeds, and carriage returns at the end."""
    return text.replace("\n", " ").rstrip("\r")


class Strings:
    def __init__(self, tokenizer, excluded, seed):
        self.random = random.Random(seed)
        self.lines = real_lines()
        self.words = sorted({word for line in self.lines for word in line.split()})
        self.added = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
        known = [c for c in range(1, 0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
        self.chars = [chr(c) for c in known if chr(c) not in excluded and c != 10]
        self.low = [c for c in self.chars if ord(c) < 0x3000]
        self.excluded = excluded

    def piece(self):
        pick, kind = self.random.choice, self.random.randrange(14)
        if kind < 4:
            return pick(self.words)
        if kind < 6:
            return pick(SPACES) * self.random.randrange(1, 4)
        if kind == 6:
            return "".join(pick(self.chars) for _ in range(self.random.randrange(1, 6)))
        if kind == 7:
            return "".join(pick(self.low) for _ in range(self.random.randrange(1, 8)))
        if kind == 8:
            return pick("aeonAEO\u00e9\uac00\u1100\u0915") + "".join(pick(MARKS) for _ in range(self.random.randrange(1, 4)))
        if kind == 9:
            return pick(EMOJI)
        if kind == 10:
            return str(self.random.randrange(10 ** self.random.randrange(1, 12)))
        if kind == 11:
            return "".join(pick(".,;:!?'\"()[]{}<>@#$%^&*-_=+/\\|~`") for _ in range(self.random.randrange(1, 4)))
        if kind == 12 and self.added:
            return pick(self.added)
        return pick(["a", "\u00e9", "\u4e2d", "=", "\U0001f6a2", "ab", "\r", "\x01"]) * self.random.randrange(1, 60)

    def random_one(self):
        glue = self.random.choice(["", "", " "])
        return one_line(glue.join(self.piece() for _ in range(self.random.randrange(1, 9))))

    def real_one(self):
        line = self.random.choice(self.lines)
        begin = self.random.randrange(len(line))
        text = line[begin:begin + self.random.randrange(1, 160)]
        return one_line("".join(c for c in text if c not in self.excluded))

    def batch(self, count):
        return [self.random_one() if i % 2 else self.real_one() for i in range(count)]


class Program:
    def __init__(self, binary, folder):
        self.command = [binary, "tokenize", "--tokenizer", folder, "--ids"]

    def run(self, lines, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8", newline="") as file:
            file.write("".join(line + "\n" for line in lines))
            file.flush()
            done = subprocess.run([*self.command, file.name, *options], capture_output=True, check=True)
        return done.stdout.decode("utf-8").split("\n")[:-1]


class Encoding:
    def __init__(self, ids):
        self.ids = ids


class SentencePiece:
    """A .model with its control pieces as special tokens; encodes each part between them separately."""

    def __init__(self, folder):
        from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2
        path = next(path for name in ("spiece.model", "tokenizer.model") if (path := folder / name).exists())
        config = json.loads((folder / "tokenizer_config.json").read_text())
        self.legacy, self.around = config.get("legacy", True), (config.get("add_bos_token"), config.get("add_eos_token"))
        self.pieces = SentencePieceProcessor(model_file=str(path))
        proto = sentencepiece_model_pb2.ModelProto.FromString(path.read_bytes())
        proto.normalizer_spec.add_dummy_prefix = False
        self.following = SentencePieceProcessor(model_proto=proto.SerializeToString())
        self.special = {piece.piece: id for id, piece in enumerate(proto.pieces) if piece.type in (2, 3)}
        added = {token["content"]: token | {"id": int(id)} for id, token in config.get("added_tokens_decoder", {}).items()}
        self.special |= {text: token["id"] for text, token in added.items()}
        strip = lambda text, side: r"\s*" if added.get(text, {}).get(side) else ""
        patterns = [strip(text, "lstrip") + re.escape(text) + strip(text, "rstrip")
                    for text in sorted(self.special, key=len, reverse=True)]
        self.cut = re.compile("(" + "|".join(patterns) + ")")

    def get_added_tokens_decoder(self):
        return {id: Token(text) for text, id in self.special.items()}

    def part(self, text, is_first):
        if is_first or self.legacy:
            return self.pieces.encode(text)
        guard = "\ue000"  # in no piece; prevents leading spaces from being stripped
        found = self.following.encode(guard + text, return_type="proto").pieces
        ours = lambda piece: piece.begin >= len(guard.encode()) or (piece.piece[0] == guard and piece.piece != guard)
        return [piece.id for piece in found if ours(piece)]

    def encode(self, text):
        ids = [self.pieces.bos_id()] if self.around[0] else []
        at = 0
        for part in self.cut.split(text):
            if part:
                special = self.special.get(part.strip()) if self.cut.fullmatch(part) else None
                ids += self.part(part, at == 0) if special is None else [special]
            at += len(part)
        return ids + ([self.pieces.eos_id()] if self.around[1] else [])

    def encode_batch_fast(self, texts):
        return [Encoding(self.encode(text)) for text in texts]


class Token:
    def __init__(self, content):
        self.content = content


def load(folder, library):
    """The tokenizer in a folder: tokenizer.json, or GPT-2's vocab.json and merges.txt."""
    if library == "sentencepiece":
        return SentencePiece(folder)
    if library == "transformers":
        from transformers import AutoTokenizer
        return AutoTokenizer.from_pretrained(folder).backend_tokenizer
    if (folder / "tokenizer.json").exists():
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return tokenizer
    tokenizer = Tokenizer(models.BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt")))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def differences(tokenizer, program, strings):
    """The strings whose ids or decoded texts differ, with both values."""
    theirs = [encoding.ids for encoding in tokenizer.encode_batch_fast(strings)]
    ours = [json.loads(line) for line in program.run(strings)]
    found = [(text, a, b) for text, a, b in zip(strings, ours, theirs, strict=True) if a != b]
    if isinstance(tokenizer, SentencePiece):
        return found
    theirs_text = tokenizer.decode_batch(theirs)
    plain = [i for i, text in enumerate(theirs_text) if "\n" not in text]
    ours_text = program.run([json.dumps(theirs[i]) for i in plain], "--decode")
    found += [(strings[i], text, theirs_text[i]) for i, text in zip(plain, ours_text, strict=True) if text != theirs_text[i]]
    return found


def ranges(chars):
    runs = []
    for code in sorted(map(ord, chars)):
        if runs and runs[-1][1] == code - 1:
            runs[-1][1] = code
        else:
            runs.append([code, code])
    return " ".join(f"{a:X}-{b:X}" if a != b else f"{a:X}" for a, b in runs)


def compare(binary, folder, count, seed, library):
    tokenizer = load(pathlib.Path(folder), library)
    program = Program(binary, folder)
    known = [chr(c) for c in range(1, 0x110000) if c != 10 and unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]
    alone = {f"x{c}y": c for c in known}
    # A mark before one that precedes it in canonical order shows whether its combining class is known.
    alone |= {f"x{c}\u0334y": c for c in known if unicodedata.category(c).startswith("M")}
    texts, excluded = list(alone), set()
    for start in range(0, len(texts), CHUNK):
        excluded |= {alone[text] for text, _, _ in differences(tokenizer, program, texts[start:start + CHUNK])}
    print(f"{folder}: {len(known)} characters, {len(excluded)} differ: {ranges(excluded)}", flush=True)
    strings = Strings(tokenizer, excluded, seed)
    compared = different = 0
    for start in range(0, count, CHUNK):
        batch = strings.batch(min(CHUNK, count - start))
        found = differences(tokenizer, program, batch)
        compared += len(batch)
        different += len(found)
        for text, ours, theirs in found[:3]:
            print(f"  {text!r}\n    trainer: {ours}\n    {library}: {theirs}")
    print(f"{folder}: {compared} strings, {different} differences", flush=True)
    return different


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--with", dest="library", choices=["tokenizers", "transformers", "sentencepiece"],
                        default="tokenizers")
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("binary")
    parser.add_argument("folders", nargs="*", default=sorted(str(path.parent) for path in HERE.glob("json/*/tokenizer.json")))
    arguments = parser.parse_args()
    sys.exit(any([compare(arguments.binary, folder, arguments.strings, arguments.seed, arguments.library) for folder in arguments.folders]))


if __name__ == "__main__":
    main()
