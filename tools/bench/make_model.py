"""Writes a Hugging Face folder with random weights for a benchmark: config.json, model.safetensors, spiece.model.

The tokenizer is trained on the data, so nothing has to be downloaded. It has T5's layout: <pad> 0, </s> 1, <unk> 2.
"""

import argparse
import pathlib

import sentencepiece
import torch
from transformers import T5Config, T5ForConditionalGeneration

SHAPES = {
    "tiny": dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=1100),
    "t5-small": dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128),
    "t5-base": dict(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, vocab_size=32128),
}


def train_tokenizer(data: pathlib.Path, pieces: int, folder: pathlib.Path) -> None:
    rows = [line.rstrip("\r\n").rpartition("@") for line in data.read_text(encoding="utf-8").split("\n") if "@" in line]
    # Each label is also a text of its own, often enough to become one piece, as in T5's own vocabulary.
    texts = [sentence for sentence, _, _ in rows] + [label for _, _, label in rows]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_prefix=str(folder / "spiece"), vocab_size=pieces, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, num_threads=1, minloglevel=2,
    )
    (folder / "spiece.vocab").unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="t5-small")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="lines sentence@label")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    arguments.folder.mkdir(parents=True, exist_ok=True)
    sizes = SHAPES[arguments.shape]
    train_tokenizer(arguments.data, min(8000, sizes["vocab_size"] - 100), arguments.folder)
    torch.manual_seed(arguments.seed)
    model = T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0))
    model.save_pretrained(arguments.folder)
    print(f"{arguments.folder}: {model.num_parameters() / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()
