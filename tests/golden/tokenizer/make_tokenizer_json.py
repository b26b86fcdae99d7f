#!/usr/bin/env python3
"""Makes a small tokenizer.json in the layout of each family, and the results of `tokenizers` for difficult texts.

Needs tokenizers==0.23.3. The models are trained on this repository's data/examples. Each folder in json/ gets
tokenizer.json and vectors.jsonl: one {"ids", "offsets", "decoded", "plain"} per line, for the texts in texts.json.
`offsets` are in characters, alternating begin and end. `decoded` includes the special tokens; `plain` doesn't, and is
omitted if it is the same.
"""

import base64
import json
import pathlib
import struct

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = pathlib.Path(__file__).resolve().parent
SAMPLES = HERE.parent.parent.parent / "data" / "examples"

LLAMA3_WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
                r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN_WORDS = LLAMA3_WORDS.replace("{1,3}", "")

TEXTS = [
    "Sales at the bakery rose this week.", "Leaks at the ferry did not change, while the wind rose.", "same", "", " ",
    "  two  spaces   and a\ttab\nand lines\r\n ", "\n\n\nlines\n \n", "UPPER lower 0123456789 12 1234567",
    "I'll say it's what they've said: DON'T, we'RE 'ſ", "A caf\u00e9, a cafe\u0301 and \ufb01ve \u2167 \u216b \u00bd \uff21\uff22\uff23",
    "no\u00a0break\u2003em\u3000wide\u200bzero\ufeffbom\u00adsoft", "\u65e5\u672c\u8a9e\u306e text \u4e2d\u6587 \ud55c\uad6d\uc5b4",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0627\u0644\u0639\u0631\u0628\u064a\u0629 \u05e2\u05d1\u05e8\u05d9\u05ea",
    "\U0001f6a2\U0001f33f \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "\u2581visible\u2581space \u2581", "control \x01\x7f\x00\x1b bytes \x85 \u2028 \ufffd", "quotes \u201cx\u201d \u2018y\u2019 \u2026 \u2014",
    "a" * 40, "word" * 15, "un known qzj\u00df\u00f8 \u0130stanbul words xxxyyyzzz", "\u0301 lone mark e\u0323\u0307 a\u0315\u0300\u05ae",
    "\uac00\u1100\u1161\u11a8 \u1100\u1161", "x \u00c5ngstr\u00f6m \u212b \u2126 \u01c4", "price: $1,234.56 (50%) #1 @home https://a.b/c?d=e&f",
    "<s> a</s> <b> </b> <mask> [MASK][CLS]x [SEP]", "a<extra_id_0>b <extra_id_1> c", "<|endoftext|>a <|im_start|>user\nhi<|im_end|>",
    "wordMIXword MIX  MIX, mix", "the NEW the newer NEW", "trail   \t", "\u1f88\u03a3 \u03a3 \u00b5 \u017f", "do not . no ! n't 's 've",
    "t\u0302\u0303e\u0301\u0327", "1\ufe0f\u20e3 \u2460 \u00b2 \u0663 \u0967", "\r\n\r\n", "\r \n", "\u200d\u200c\u2060", "{}[]~`^|\\_+-=*&",
]


def corpus():
    for name in ("reports.txt", "topics.txt"):
        for line in (SAMPLES / name).read_text(encoding="utf-8").splitlines():
            yield from line.rsplit("@", 1)
    yield from ("the caf\u00e9 0123456789 ABCDEFGHIJKLMNOPQRSTUVWXYZ abcdefghijklmnopqrstuvwxyz <>_/()?!;:" for _ in range(3))


FREE = 1 << 31


def charsmap(rules):
    """A precompiled_charsmap: a double array over bytes (darts-clone's units) and the replacements."""
    blob, values = b"", {}
    for old, new in sorted(rules.items()):
        values[old.encode()] = len(blob)
        blob += new.encode() + b"\0"
    root = {}
    for key, value in values.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[-1] = value
    units, used, bases = [0], {0}, {0}  # no byte matches the label of a free unit

    def place(node, at):
        labels = [0 if label == -1 else label for label in node]
        offset = next(o for o in range(1, 1 << 20) if at ^ o not in bases and all((at ^ o) ^ label not in used for label in labels))
        base = at ^ offset
        bases.add(base)
        used.update(base ^ label for label in labels)
        units.extend([FREE] * (max(base | 255, at | 255) + 1 - len(units)))
        units[at] = (units[at] & 255 if units[at] != FREE else 0) | offset << 10 | (256 if -1 in node else 0)
        for label, child in node.items():
            if label == -1:
                units[base] = 1 << 31 | child
            else:
                units[base ^ label] = label
        for label, child in node.items():
            if label != -1:
                place(child, base ^ label)

    place(root, 0)
    units.extend([FREE] * (-len(units) % 256))
    trie = struct.pack(f"<{len(units)}I", *units)
    return struct.pack("<I", len(trie)) + trie + blob


RULES = {"\u00e9": "e", "e\u0301": "E", "\ufb01": "fi", "\u00bd": "1\u20442", "\u2014": "-", "\u201c": "<<", "\t": " ", "\r": "",
         "\n": " ", "\u3000": " ", "\u00a0": " ", "\ufeff": "", "\u0301": "", "\u2167": "VIII", "\uff21": "A"}


def precompiled(tokenizer):
    """Prepends a Precompiled to the normalizers of `tokenizer`."""
    stage = {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(RULES)).decode()}
    root = json.loads(tokenizer.to_str())
    more = root["normalizer"]
    root["normalizer"] = {"type": "Sequence", "normalizers": [stage] + ([more] if more else [])} if more else stage
    return Tokenizer.from_str(json.dumps(root))


def byte_level_bpe(normalizer, pre_tokenizer, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=380, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    return tokenizer


def special(*texts, **options):
    return [AddedToken(text, special=True, normalized=False, **options) for text in texts]


def gpt2():
    tokenizer = byte_level_bpe(None, pre_tokenizers.ByteLevel(add_prefix_space=False))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=True)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", special=True, normalized=True)])
    return tokenizer


def roberta():
    tokenizer = byte_level_bpe(None, pre_tokenizers.ByteLevel(add_prefix_space=True))
    tokenizer.add_special_tokens(special("<s>", "</s>") + special("<mask>", lstrip=True))
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", tokenizer.token_to_id("</s>")), ("<s>", tokenizer.token_to_id("<s>")))
    return tokenizer


def llama3():
    words = pre_tokenizers.Split(Regex(LLAMA3_WORDS), "isolated")
    tokenizer = byte_level_bpe(None, pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]), ignore_merges=True)
    tokenizer.add_special_tokens(special("<|begin_of_text|>", "<|im_start|>", "<|im_end|>"))
    bos = "<|begin_of_text|>"
    template = processors.TemplateProcessing(single=f"{bos} $A", pair=f"{bos} $A {bos}:1 $B:1", special_tokens=[(bos, tokenizer.token_to_id(bos))])
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=True), template])
    return tokenizer


def qwen2():
    words = pre_tokenizers.Split(Regex(QWEN_WORDS), "isolated")
    tokenizer = byte_level_bpe(normalizers.NFC(), pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_special_tokens(special("<|endoftext|>", "<|im_start|>", "<|im_end|>"))
    tokenizer.add_tokens([AddedToken("MIX", single_word=True), AddedToken("NEW", lstrip=True, rstrip=True)])
    return tokenizer


def llama_model(normalizer, pre_tokenizer):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer, tokenizer.pre_tokenizer = normalizer, pre_tokenizer
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokenizer.train_from_iterator(corpus(), trainers.BpeTrainer(vocab_size=450, special_tokens=tokens, show_progress=False))
    root = json.loads(tokenizer.to_str())
    root["added_tokens"] = [dict(token, normalized=False) for token in root["added_tokens"] if token["id"] < 3]
    tokenizer = Tokenizer.from_str(json.dumps(root))
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def llama2():
    tokenizer = llama_model(None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    root = json.loads(tokenizer.to_str())
    root["pre_tokenizer"] = None
    root["model"]["merges"] = [" ".join(merge) for merge in root["model"]["merges"]]  # as in older files
    return Tokenizer.from_str(json.dumps(root)), root


def mistral():
    tokenizer = llama_model(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    return tokenizer


def bert():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(corpus(), trainers.WordPieceTrainer(vocab_size=300, special_tokens=tokens, show_progress=False))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    tokenizer.decoder = decoders.WordPiece()
    return tokenizer


def unigram(pre_tokenizer, normalizer, decoder):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = normalizer, pre_tokenizer, decoder
    trainer = trainers.UnigramTrainer(vocab_size=220, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_special_tokens(special("<extra_id_1>", "<extra_id_0>", lstrip=True, rstrip=True))
    tokenizer.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return tokenizer


def t5():
    metaspace = pre_tokenizers.Metaspace(prepend_scheme="always")
    return precompiled(unigram(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), metaspace]), None, decoders.Metaspace()))


def pegasus():
    stages = [normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " "), normalizers.Strip(left=False, right=True)]
    return unigram(pre_tokenizers.Metaspace(prepend_scheme="always"), normalizers.Sequence(stages), decoders.Metaspace())


def stages():
    """Combines the stages that no family above uses."""
    tokenizer = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase(), normalizers.NFD()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.CharDelimiterSplit("q"), pre_tokenizers.Split("th", "merged_with_previous"),
        pre_tokenizers.Split(Regex("[aeiou]+"), "merged_with_next"), pre_tokenizers.Split(Regex("[a-m]"), "removed", invert=True)])
    tokenizer.train_from_iterator(corpus(), trainers.WordLevelTrainer(vocab_size=200, special_tokens=["<unk>"], show_progress=False))
    tokenizer.decoder = decoders.BPEDecoder(suffix="e")
    return tokenizer


def write_vectors(tokenizer, path):
    with open(path, "w", encoding="utf-8") as out:
        for text in TEXTS:
            encoded = tokenizer.encode(text)
            line = {"ids": encoded.ids, "offsets": [place for pair in encoded.offsets for place in pair],
                    "decoded": tokenizer.decode(encoded.ids, skip_special_tokens=False)}
            plain = tokenizer.decode(encoded.ids)
            if plain != line["decoded"]:
                line["plain"] = plain
            out.write(json.dumps(line, separators=(",", ":"), ensure_ascii=False) + "\n")


def main():
    folder = HERE / "json"
    folder.mkdir(exist_ok=True)
    (folder / "texts.json").write_text(json.dumps(TEXTS, indent=0) + "\n")
    for make in (gpt2, roberta, llama3, qwen2, llama2, mistral, bert, t5, pegasus, stages):
        made = make()
        tokenizer, root = made if isinstance(made, tuple) else (made, json.loads(made.to_str()))
        (folder / make.__name__).mkdir(exist_ok=True)
        text = json.dumps(root, ensure_ascii=False, separators=(",", ":")) + "\n"
        (folder / make.__name__ / "tokenizer.json").write_text(text)
        write_vectors(tokenizer, folder / make.__name__ / "vectors.jsonl")


if __name__ == "__main__":
    main()
