"""Writes gguf/: tiny models with tokenizers, and what llama.cpp's own converters make of them. README.md lists the files.

make_gguf.py LLAMA_CPP, the folder vendor/llama.cpp of llama-cpp-python's source package.
"""

import json
import logging
import pathlib
import shutil
import subprocess
import sys

import numpy
import torch
import transformers as t
from golden_folder import GOLDEN
from sentencepiece.sentencepiece_model_pb2 import ModelProto

LLAMA_CPP = pathlib.Path(sys.argv[1])
sys.path[:0] = [str(LLAMA_CPP), str(LLAMA_CPP / "gguf-py")]
import conversion  # noqa: E402
import gguf  # noqa: E402
from conversion.base import ModelBase, ModelType, get_model_architecture  # noqa: E402

logging.disable(logging.WARNING)
t.logging.set_verbosity_error()
t.logging.disable_progress_bar()
FOLDER = GOLDEN / "gguf"
TOKENIZERS = GOLDEN / "tokenizer"
SIZES = dict(hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128)
LLAMA3_ROPE = dict(rope_type="llama3", rope_theta=500000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=64)
PIECES = 400  # of bpe/spiece.model
# The converter recognizes a pre-tokenizer by the ids of a text under published vocabularies; these are smaller.
PRE_TOKENIZERS = {"llama3": "llama-bpe", "qwen2": "qwen2", "gpt2": "gpt-2"}
OF_PIECES = dict(vocab_size=PIECES, bos_token_id=None, eos_token_id=1, pad_token_id=0)
CASES = {
    "llama": ("spm", t.LlamaConfig, {**OF_PIECES, **SIZES, "vocab_size": PIECES + 3}),
    "llama3": ("llama3", t.LlamaConfig,
               dict(rope_parameters=LLAMA3_ROPE, attention_bias=True, mlp_bias=True, bos_token_id=380, eos_token_id=382,
                    **SIZES)),
    "qwen2": ("qwen2", t.Qwen2Config, dict(SIZES)),
    "qwen3": ("qwen2", t.Qwen3Config, dict(head_dim=16, tie_word_embeddings=True, **SIZES)),
    "gemma": ("spm", t.GemmaConfig, dict(head_dim=16, **OF_PIECES, **SIZES)),
    "gemma2": ("spm", t.Gemma2Config,
               dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=24, **OF_PIECES, **SIZES)),
    "gemma3": ("spm", t.Gemma3TextConfig,
               dict(head_dim=16, query_pre_attn_scalar=16, sliding_window=24, **OF_PIECES, **SIZES)),
    "gpt2": ("gpt2", t.GPT2Config,
             dict(n_embd=32, n_layer=2, n_head=4, n_positions=128, n_ctx=128, bos_token_id=380, eos_token_id=380)),
}


def add_tokenizer(folder, kind):
    """Copies a tokenizer into the folder; returns the number of its tokens."""
    if kind == "spm":
        pieces = ModelProto.FromString((TOKENIZERS / "bpe/spiece.model").read_bytes())
        pieces.normalizer_spec.add_dummy_prefix = not folder.name.startswith("gemma")  # as its models have it
        (folder / "tokenizer.model").write_bytes(pieces.SerializeToString())
        settings = dict(add_bos_token=False, add_eos_token=False, eos_token="</s>", unk_token="<unk>", pad_token="<pad>")
        (folder / "tokenizer_config.json").write_text(json.dumps(settings) + "\n")
        return PIECES
    for file in (TOKENIZERS / "json" / kind).glob("tokenizer*.json"):
        shutil.copy(file, folder / file.name)
    content = json.loads((folder / "tokenizer.json").read_text())
    return 1 + max([*content["model"]["vocab"].values(), *(token["id"] for token in content["added_tokens"])])


def make_model(name, kind, config, options):
    folder = FOLDER / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tokens = add_tokenizer(folder, kind)
    torch.manual_seed(1)
    model = t.AutoModelForCausalLM.from_config(config(**{"vocab_size": tokens, **options}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    model.to(torch.bfloat16).save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps(dict(top_k=20, top_p=0.9, temperature=0.5)) + "\n")
    if name == "gpt2":  # which the converter reads, and transformers 5 no longer writes
        written = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**written, "n_ctx": 128}, indent=2) + "\n")
    return folder


def convert(folder, kind, file_type, file):
    architecture = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.TEXT)
    converter = conversion.get_model_class(architecture)
    converter.get_vocab_base_pre = lambda self, tokenizer: PRE_TOKENIZERS[kind]
    with torch.inference_mode():
        converter(folder, file_type, file).write()


def make_adapter():
    """A LoRA adapter on llama, with the converter's file."""
    from peft import LoraConfig, get_peft_model
    torch.manual_seed(2)
    model = t.AutoModelForCausalLM.from_pretrained(FOLDER / "llama", dtype=torch.float32)
    adapted = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, task_type="CAUSAL_LM",
                                               target_modules=["q_proj", "k_proj", "down_proj"]))
    with torch.no_grad():
        for name, parameter in adapted.named_parameters():
            if "lora_B" in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    folder = FOLDER / "adapter"
    shutil.rmtree(folder, ignore_errors=True)
    adapted.save_pretrained(folder)
    (folder / "README.md").unlink()
    config = json.loads((folder / "adapter_config.json").read_text())
    config["base_model_name_or_path"] = "llama"
    config["target_modules"] = sorted(config["target_modules"])
    (folder / "adapter_config.json").write_text(json.dumps(config, indent=2) + "\n")
    subprocess.run([sys.executable, LLAMA_CPP / "convert_lora_to_gguf.py", "--base", FOLDER / "llama", "--outtype", "f32",
                    "--outfile", FOLDER / "adapter.gguf", folder], check=True, stdout=subprocess.DEVNULL)


def make_blocks():
    """Values and their Q8_0 blocks, as raw files."""
    random = numpy.random.default_rng(3)
    rows = [random.normal(size=(24, 32)), random.normal(size=(4, 32)) * 1e-4, numpy.zeros((1, 32)),
            numpy.round(random.normal(size=(3, 32)) * 40) / 2, numpy.full((1, 32), 127.0)]
    values = numpy.concatenate(rows).astype(numpy.float32)
    values.tofile(FOLDER / "values.f32")
    gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0).tofile(FOLDER / "values.q8_0")
    gguf.quants.quantize(values, gguf.GGMLQuantizationType.BF16).tofile(FOLDER / "values.bf16")


for case, (tokenizer, config_class, config_options) in CASES.items():
    made = make_model(case, tokenizer, config_class, config_options)
    convert(made, tokenizer, gguf.LlamaFileType.MOSTLY_Q8_0, FOLDER / f"{case}.gguf")
make_adapter()
make_blocks()
