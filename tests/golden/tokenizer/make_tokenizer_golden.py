#!/usr/bin/env python3
"""Makes the tokenizer test vectors: two small SentencePiece models, and the reference's ids for some texts.

Needs transformers==5.17.0 and sentencepiece==0.2.3. The models are trained on this repository's data/examples.
unigram/  with T5's normalizer; ids from transformers' T5Tokenizer
bpe/      with a custom normalizer of a few rules; ids from sentencepiece, with </s> appended
Each folder gets spiece.model, tokenizer_config.json and vectors.jsonl: one {"text", "ids", "decoded"} per line,
`decoded` without special tokens.
"""

import contextlib
import io
import json
import pathlib
import tempfile

import sentencepiece
from transformers import T5Tokenizer

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent.parent / "data" / "examples"
EXTRA_IDS = 100
RULES = {"\u00e9": "e", "e\u0301": "e", "\ufb01": "fi", "\u00bd": "1/2", "\u2014": "-", "\u201c": "<<", "\t": " ", "\r": "", "\n": " "}

TEXTS = [
    "Sales at the bakery rose this week.",
    "Leaks at the ferry did not change, while the wind rose.",
    "same", "better", "worse", "",
    " ", "  two  spaces   and a\ttab\nand lines\r\n ",
    "UPPER lower 0123456789",
    "A caf\u00e9, a cafe\u0301 and \ufb01ve \u2167 \u216b \u00bd \uff21\uff22\uff23",
    "no\u00a0break\u2003em\u3000wide\u200bzero\ufeffbom\u00adsoft",
    "\u65e5\u672c\u8a9e \u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \ud55c\uad6d\uc5b4 \U0001f6a2\U0001f33f",
    "\u2581visible\u2581space", "control \x01\x7f bytes", "quotes \u201cx\u201d \u2018y\u2019 \u2026 \u2014",
    "a" * 300, "un known qzj\u00df\u00f8 words xxxyyyzzz",
    "<s> <b> </b> <mask>",
]
SPECIAL_TEXTS = [
    "a<extra_id_0>b", "the <extra_id_0> ship  <extra_id_99> x", "<extra_id_0> <extra_id_1>", " <extra_id_5>",
    "<extra_id_5>.", "<extra_id_100> <extra_id_> <extra_id_1", "<<extra_id_1>>", "</s> the <pad>", "the </s>garden",
    "<unk>x", "ends</s>", "<pad><pad>", "</s",
]


def corpus():
    for name in ("reports.txt", "topics.txt"):
        for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines():
            yield from line.rsplit("@", 1)
    yield from ("caf\u00e9 0123456789 ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz <>_/()?!;:" for _ in range(3))


def train(folder, **settings):
    folder.mkdir(exist_ok=True)
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=corpus(), model_writer=model, pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1,
        character_coverage=1.0, minloglevel=2, **settings)
    (folder / "spiece.model").write_bytes(model.getvalue())
    config = {"extra_ids": EXTRA_IDS, "tokenizer_class": "T5Tokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config) + "\n")


def write_vectors(folder, texts, encode, decode):
    with open(folder / "vectors.jsonl", "w", encoding="utf-8") as out:
        for text in texts:
            ids = encode(text)
            out.write(json.dumps({"text": text, "ids": ids, "decoded": decode(ids)}) + "\n")


def main():
    unigram = HERE / "unigram"
    train(unigram, model_type="unigram", vocab_size=240)
    reference = T5Tokenizer.from_pretrained(unigram)
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(unigram / "spiece.model"))
    # sentencepiece itself decodes the texts: the fast tokenizer places spaces differently where a token was skipped.
    write_vectors(unigram, TEXTS + SPECIAL_TEXTS, lambda text: reference(text).input_ids,
                  lambda ids: pieces.decode([i for i in ids if 2 < i < len(pieces)]))

    bpe = HERE / "bpe"
    with tempfile.TemporaryDirectory() as work, contextlib.chdir(work):  # the model stores the path of the rules file
        codes = lambda text: " ".join(f"{ord(c):X}" for c in text)
        pathlib.Path("rules.tsv").write_text("".join(f"{codes(old)}\t{codes(new)}\n" for old, new in RULES.items()))
        train(bpe, model_type="bpe", vocab_size=400, normalization_rule_tsv="rules.tsv")
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(bpe / "spiece.model"))
    write_vectors(bpe, TEXTS, lambda text: pieces.encode(text) + [1],
                  lambda ids: pieces.decode([i for i in ids if i > 2]))


if __name__ == "__main__":
    main()
