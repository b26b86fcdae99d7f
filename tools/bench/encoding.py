"""Encoding on one thread compared with `tokenizers`, in turn.

  speed   each kind of tokenizer on tinyshakespeare and FinancialPhraseBank, line by line
  length  one line without spaces: how the time grows when the length doubles

Measures processor time, so other work on the machine matters little. The ids must be equal. Runs in an environment with
tokenizers==0.23.3 (README.md) and needs the target `encode_bench`.
"""

import argparse
import array
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

os.environ |= {"TOKENIZERS_PARALLELISM": "false", "RAYON_NUM_THREADS": "1"}

import machine
from programs import ROOT

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
QWEN = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


def byte_level(data: pathlib.Path, expression: str | None = None, **options) -> Tokenizer:
    vocab, merges = (str(data / "gpt2_bpe" / name) for name in ("vocab.json", "merges.txt"))
    tokenizer = Tokenizer(models.BPE.from_file(vocab, merges, **options))
    if expression:
        split = pre_tokenizers.Split(Regex(expression), "isolated")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def qwen(data: pathlib.Path, lines: list[str]) -> Tokenizer:
    tokenizer = byte_level(data, QWEN)
    tokenizer.normalizer = normalizers.NFC()
    return tokenizer


def llama_2(data: pathlib.Path, lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()  # in training only: pieces don't cross spaces
    special = ["<unk>", "<s>", "</s>"]
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(
        vocab_size=8000, special_tokens=special + [f"<0x{byte:02X}>" for byte in range(256)], show_progress=False))
    tokenizer = Tokenizer(tokenizer.model)
    tokenizer.add_special_tokens(special)
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return tokenizer


def bert(data: pathlib.Path, lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=8000, special_tokens=special, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def unigram(data: pathlib.Path, lines: list[str]) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(data / "unigram_tokenizer" / "tokenizer.json"))
    tokenizer.no_truncation()  # the file sets truncation, which transformers overrides in every call
    return tokenizer


KINDS = {
    "GPT-2 (BPE, byte-level)": lambda data, lines: byte_level(data),
    "LLaMA-3 (BPE, byte-level, ignore_merges)": lambda data, lines: byte_level(data, LLAMA_3, ignore_merges=True),
    "Qwen (BPE, byte-level, NFC)": qwen,
    "LLaMA-2 (BPE, byte fallback)": llama_2,
    "T5 (Unigram)": unigram,
    "BERT (WordPiece)": bert,
}


class Native:
    """Runs encode_bench with one tokenizer and one file."""

    def __init__(self, program: pathlib.Path, folder: pathlib.Path, file: pathlib.Path):
        self.process = subprocess.Popen([program, folder, file], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def round(self) -> tuple[float, int, int]:
        print(file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().split()
        if not answer:
            sys.exit(f"encode_bench ended with {self.process.wait()}")
        return float(answer[0]), int(answer[1]), int(answer[2])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def peer_round(tokenizer: Tokenizer, lines: list[str]) -> tuple[float, int, int]:
    start = time.process_time()
    encodings = tokenizer.encode_batch_fast(lines)  # without offsets
    spent = time.process_time() - start
    tokens = checksum = 0
    for encoding in encodings:
        ids = array.array("i", encoding.ids)
        tokens += len(ids)
        checksum = zlib.crc32(ids.tobytes(), checksum)
    return spent, tokens, checksum


def read_lines(data: pathlib.Path) -> list[str]:
    plays = (data / "tinyshakespeare" / "input.txt").read_text(encoding="utf-8")
    reports = (data / "financial_phrasebank" / "Sentences_50Agree.txt").read_text(encoding="latin-1")
    return (plays + "\n" + reports).replace("\r", "").split("\n")


def compare(name: str, tokenizer: Tokenizer, lines: list[str], arguments: argparse.Namespace) -> tuple[float, float]:
    """Prints the ratio pair by pair. Returns the medians of trainer and the peer."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        tokenizer.save(str(folder / "tokenizer.json"))
        text = folder / "text.txt"
        text.write_text("\n".join(lines) + "\n", encoding="utf-8")
        native = Native(arguments.program, folder, text)
        ours, theirs = [], []
        for i in range(arguments.pairs + 1):  # the first pair warms up
            mine, peers = native.round(), peer_round(tokenizer, lines)
            if mine[1:] != peers[1:]:
                sys.exit(f"{name}: the ids differ: {mine[1]} tokens, the peer's are {peers[1]}")
            if i > 0:
                ours.append(mine[0])
                theirs.append(peers[0])
        native.close()
        size = text.stat().st_size / 1e6
    ratios = [peer / own for own, peer in zip(ours, theirs)]
    own, peer = statistics.median(ours), statistics.median(theirs)
    print(f"  {name:42} {size / own:7.1f} MB/s, tokenizers {size / peer:6.2f} MB/s: {statistics.median(ratios):5.1f}x"
          f" (pairs {min(ratios):.1f} to {max(ratios):.1f})", flush=True)
    return own, peer


def speed(arguments: argparse.Namespace) -> None:
    lines = read_lines(arguments.data)
    print("\nspeed: encoding line by line")
    for name, make in KINDS.items():
        if arguments.only in name:
            compare(name, make(arguments.data, lines), lines, arguments)


def length(arguments: argparse.Namespace) -> None:
    lines = read_lines(arguments.data)
    rng = random.Random(1)
    texts = {"one letter": "a" * (1 << 20),
             "random letters": "".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=1 << 20)),
             "words without spaces": "".join(c for line in lines for c in line if c.isalpha())[:1 << 20]}
    print("\nlength: one line without spaces, 1 and 2 MB")
    for name, make in KINDS.items():
        if arguments.only not in name:
            continue
        tokenizer = make(arguments.data, lines)
        for kind, text in texts.items():
            once = compare(f"{name.split(' (')[0]}, {kind}, 1 MB", tokenizer, [text], arguments)
            twice = compare(f"{name.split(' (')[0]}, {kind}, 2 MB", tokenizer, [text + text], arguments)
            print(f"    twice the length: {twice[0] / once[0]:.2f} times as long, tokenizers {twice[1] / once[1]:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed", "length"])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build" / "release" / "bin" / "encode_bench")
    parser.add_argument("--data", type=pathlib.Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="", help="part of the name of a kind of tokenizer")
    arguments = parser.parse_args()
    print(machine.describe())
    {"speed": speed, "length": length}[arguments.what](arguments)


if __name__ == "__main__":
    main()
