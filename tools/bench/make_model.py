"""Writes a Hugging Face folder with random weights for a benchmark: config.json, model.safetensors, spiece.model.

The tokenizer is trained on the data, so nothing has to be downloaded. It has T5's layout: <pad> 0, </s> 1, <unk> 2.
"""

import argparse
import pathlib

import sentencepiece
import torch
from transformers import (GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, T5Config,
                          T5ForConditionalGeneration)

SHAPES = {
    "tiny": dict(d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, vocab_size=1100),
    "t5-small": dict(d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, vocab_size=32128),
    "t5-base": dict(d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, vocab_size=32128),
    "llama-100m": dict(hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
                       vocab_size=32000, max_position_embeddings=1024, tie_word_embeddings=True),
    "llama-1b": dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                     num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192, tie_word_embeddings=True),
    "llama-8b": dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32,
                     num_key_value_heads=8, vocab_size=128256, max_position_embeddings=8192),
    "gpt2-small": dict(n_embd=768, n_layer=12, n_head=12, n_positions=1024, vocab_size=50257),
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


def make_model(shape: str, sizes: dict) -> torch.nn.Module:
    """With T5's special tokens, as the tokenizer is T5's for every family."""
    if shape.startswith("llama"):
        return LlamaForCausalLM(LlamaConfig(**sizes, pad_token_id=0, eos_token_id=1, bos_token_id=None))
    if shape.startswith("gpt2"):
        return GPT2LMHeadModel(GPT2Config(**sizes, pad_token_id=0, eos_token_id=1, bos_token_id=None))
    return T5ForConditionalGeneration(T5Config(**sizes, decoder_start_token_id=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--shape", choices=SHAPES, default="t5-small")
    parser.add_argument("--data", type=pathlib.Path, required=True, help="lines sentence@label")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of the weights")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=NUMBER", help="sizes other than the shape's")
    parser.add_argument("--device", default="cpu", help="where they are drawn: billions take minutes on a CPU")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    arguments.folder.mkdir(parents=True, exist_ok=True)
    sizes = SHAPES[arguments.shape] | {key: int(value) for key, value in (word.split("=") for word in arguments.set)}
    train_tokenizer(arguments.data, min(8000, sizes["vocab_size"] - 100), arguments.folder)
    torch.manual_seed(arguments.seed)
    torch.set_default_dtype(getattr(torch, arguments.dtype))
    with torch.device(arguments.device):
        model = make_model(arguments.shape, sizes)
    model.save_pretrained(arguments.folder)
    print(f"{arguments.folder}: {model.num_parameters() / 1e6:.1f} M parameters")


if __name__ == "__main__":
    main()
