"""Writes qlora/: what transformers, PEFT and bitsandbytes compute on the CPU for LoRA on tiny models whose linear
layers have 4-bit weights. README.md lists the files."""

import os

os.environ["TORCHDYNAMO_DISABLE"] = "1"  # bitsandbytes compiles its CPU code with torch.compile

import json

import peft
import torch
from golden_folder import GOLDEN, random_samples, random_weights, write_folder
from golden_t5 import write_json, write_tensors
from torch.nn.functional import cross_entropy
from transformers import (AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, BitsAndBytesConfig)

FOLDER = GOLDEN / "qlora"
CASES = {
    # gate, up and down have two groups of 256 blocks
    "llama": dict(
        kind=AutoModelForCausalLM,
        config=dict(model_type="llama", vocab_size=61, hidden_size=128, intermediate_size=256, num_hidden_layers=1,
                    num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
                    tie_word_embeddings=False, bos_token_id=1, eos_token_id=2),
        quantization=dict(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
        targets=["q_proj", "o_proj", "down_proj"]),
    # a Conv1D's weight is transposed before it is quantized
    "gpt2": dict(
        kind=AutoModelForCausalLM,
        config=dict(model_type="gpt2", vocab_size=61, n_embd=128, n_inner=128, n_layer=1, n_head=4, n_positions=64,
                    resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=1, eos_token_id=2),
        quantization=dict(bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True),
        targets=["c_attn", "c_fc"]),
    # wo stays unquantized
    "t5": dict(
        kind=AutoModelForSeq2SeqLM,
        config=dict(model_type="t5", vocab_size=61, d_model=64, d_kv=16, d_ff=128, num_layers=1, num_decoder_layers=1,
                    num_heads=4, relative_attention_num_buckets=8, relative_attention_max_distance=16,
                    dropout_rate=0.0, pad_token_id=0, eos_token_id=1, decoder_start_token_id=0),
        quantization=dict(), targets=["q", "v", "wi"]),
}


def rows_of(model: torch.nn.Module, samples: list[dict]) -> list[torch.Tensor]:
    """The logits [U, V] of each sample, one by one."""
    rows = []
    for sample in samples:
        inputs = {"input_ids": torch.tensor([sample["source"]])}
        if model.config.is_encoder_decoder:
            inputs["labels"] = torch.tensor([sample["labels"]])
        rows.append(model(**inputs).logits[0])
    return rows


def loss_of(model: torch.nn.Module, rows: list[torch.Tensor], samples: list[dict]) -> tuple[torch.Tensor, int]:
    """The summed loss, and the number of target tokens."""
    labels = [torch.tensor(sample["labels"]) for sample in samples]
    losses = [cross_entropy(row, wanted, reduction="sum") for row, wanted in zip(rows, labels)]
    return sum(losses), sum(int((wanted != -100).sum()) for wanted in labels)


def samples_of(pairs: bool) -> list[dict]:
    generator = torch.Generator().manual_seed(3)
    samples = random_samples([9, 4, 7], 3, 61, generator)
    for sample in samples:
        if pairs:
            sample["labels"] = torch.randint(3, 61, (5,), generator=generator).tolist()
        else:  # the next token
            sample["labels"] = [*sample["source"][1:], -100]
    return samples


def make(name: str, kind, config: dict, quantization: dict, targets: list[str]) -> None:
    folder = FOLDER / name
    plain = kind.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    write_folder(folder, config, random_weights(plain, len(name)), torch.bfloat16)
    model = kind.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", device_map="cpu",
                                 quantization_config=BitsAndBytesConfig(load_in_4bit=True, **quantization))
    quantized = sorted(n for n, module in model.named_modules() if type(module).__name__ == "Linear4bit")
    model = model.dequantize()  # products in fp32: those of bitsandbytes round to bf16 on CPUs that have instructions for it
    settings = peft.LoraConfig(r=3, lora_alpha=5, init_lora_weights=False, target_modules=targets,
                               task_type="SEQ_2_SEQ_LM" if "t5" in name else "CAUSAL_LM")
    torch.manual_seed(1)
    model = peft.get_peft_model(model, settings).eval()
    model.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    saved = json.loads((folder / "adapter" / "adapter_config.json").read_text())
    saved |= {"base_model_name_or_path": None, "target_modules": sorted(saved["target_modules"])}
    (folder / "adapter" / "adapter_config.json").write_text(json.dumps(saved, indent=2, sort_keys=True))

    samples = samples_of(model.config.is_encoder_decoder)
    rows = rows_of(model, samples)
    loss_sum, count = loss_of(model, rows, samples)
    (loss_sum / count).backward()
    tensors = {f"logits_{i}": row.detach().clone() for i, row in enumerate(rows)}
    for n, parameter in model.named_parameters():
        if parameter.requires_grad:
            tensors["gradient." + n.replace(".default", "")] = parameter.grad.clone()
    write_tensors(folder / "expected.safetensors", tensors)

    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        total, _ = loss_of(model, rows_of(model, samples), samples)
        (total / count).backward()
        optimizer.step()
        losses.append(total.item() / count)
    write_json(folder / "expected.json", {
        "samples": samples, "target_tokens": count, "loss_sum": loss_sum.item(), "losses": losses,
        "quantized": quantized, "quantization_config": {"load_in_4bit": True, **quantization}})
    print(name, losses[0], losses[-1], len(quantized))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, case in CASES.items():
        make(name, **case)
