"""Writes peft/: the values that PEFT computes with each kind of adapter on the tiny models in the other folders.
README.md lists the files."""

import json
import pathlib
import sys
import warnings

import peft
import torch
from golden_t5 import FOLDER as T5
from golden_t5 import load as load_t5
from golden_t5 import padded as padded_pairs
from golden_t5 import write_json, write_tensors
from golden_folder import GOLDEN, padded
from torch.nn.functional import cross_entropy
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

FOLDER = GOLDEN / "peft"
V1_0, V1_1, GPT2, CLASSES = T5 / "v1_0", T5 / "v1_1", GOLDEN / "gpt2" / "causal", GOLDEN / "gpt2" / "classes"
QWEN3, MISTRAL, BERT = GOLDEN / "llama" / "qwen3", GOLDEN / "llama" / "mistral", GOLDEN / "bert" / "named"
GEMMA, GEMMA2, GEMMA3 = GOLDEN / "gemma" / "gemma", GOLDEN / "gemma" / "gemma2", GOLDEN / "gemma" / "gemma3"
TEXT, PAIRS, CLASS = "CAUSAL_LM", "SEQ_2_SEQ_LM", "SEQ_CLS"
LORA = dict(r=3, lora_alpha=5, init_lora_weights=False)

# name: folder of the base, task, configuration
CASES = {
    "patterns": (V1_0, PAIRS, peft.LoraConfig(
        **LORA, target_modules=["q", "v", "wo"], layers_to_transform=[0, 2], layers_pattern=["block"],
        rank_pattern={"wo": 2, "decoder.block.2.*q": 5}, alpha_pattern={"SelfAttention.v": 7}, use_rslora=True,
        exclude_modules=["EncDecAttention.v"])),
    "dora": (V1_0, PAIRS, peft.LoraConfig(**LORA, target_modules=["k", "wi"], use_dora=True)),
    "embeddings": (V1_1, PAIRS, peft.LoraConfig(**LORA, target_modules=["embed_tokens", "q"])),
    "pissa": (V1_0, PAIRS, peft.LoraConfig(r=3, lora_alpha=5, init_lora_weights="pissa")),
    "olora": (V1_0, PAIRS, peft.LoraConfig(r=3, lora_alpha=5, init_lora_weights="olora")),
    "pissa_dora": (V1_0, PAIRS, peft.LoraConfig(r=3, lora_alpha=5, init_lora_weights="pissa", use_dora=True)),
    "gpt2_bias": (GPT2, TEXT, peft.LoraConfig(**LORA, bias="all", fan_in_fan_out=True)),
    "gpt2_lora_only": (GPT2, TEXT, peft.LoraConfig(
        **LORA, bias="lora_only", fan_in_fan_out=True, target_modules=["attn.c_proj", "c_fc"], use_dora=True)),
    "gpt2_pissa": (GPT2, TEXT, peft.LoraConfig(r=3, lora_alpha=5, init_lora_weights="pissa", fan_in_fan_out=True)),
    "gpt2_classes": (CLASSES, CLASS, peft.LoraConfig(**LORA, target_modules=["c_attn"], fan_in_fan_out=True)),
    # the embedding and the head share a weight in GPT-2: trained, replaced or adapted in one of them
    "gpt2_saved_embedding": (GPT2, TEXT, peft.LoraConfig(**LORA, fan_in_fan_out=True, modules_to_save=["wte"])),
    "gpt2_saved_head": (GPT2, TEXT, peft.LoraConfig(**LORA, fan_in_fan_out=True, modules_to_save=["lm_head"])),
    "gpt2_embedding": (GPT2, TEXT, peft.LoraConfig(**LORA, target_modules=["c_attn", "wte"], fan_in_fan_out=True)),
    "gpt2_head": (GPT2, TEXT, peft.LoraConfig(**LORA, target_modules=["c_attn", "lm_head"], fan_in_fan_out=True)),
    "bert_bias": (BERT, CLASS, peft.LoraConfig(**LORA, bias="all")),  # the head's bias, saved under another name
    "ia3": (V1_0, PAIRS, peft.IA3Config()),
    "gpt2_ia3": (GPT2, TEXT, peft.IA3Config(fan_in_fan_out=True)),
    "vera": (V1_0, PAIRS, peft.VeraConfig(
        r=5, target_modules=["q", "v", "wo"], projection_prng_key=7, d_initial=0.3, layers_to_transform=[0, 2])),
    "gpt2_vera": (GPT2, TEXT, peft.VeraConfig(
        r=4, target_modules=["c_attn", "c_proj"], fan_in_fan_out=True, save_projection=False)),
    "loha": (V1_0, PAIRS, peft.LoHaConfig(r=2, alpha=3, target_modules=["q", "wo"], exclude_modules=["EncDecAttention.q"])),
    "qwen3_loha": (QWEN3, TEXT, peft.LoHaConfig(
        r=3, alpha=5, target_modules=["q_proj", "v_proj", "down_proj"], rank_pattern={"down_proj": 2},
        alpha_pattern={"layers.1.*q_proj": 7})),
    "prompt": (V1_1, PAIRS, peft.PromptTuningConfig(num_virtual_tokens=4)),
    "gpt2_prompt": (GPT2, TEXT, peft.PromptTuningConfig(num_virtual_tokens=3)),
    "gpt2_classes_prompt": (CLASSES, CLASS, peft.PromptTuningConfig(num_virtual_tokens=2)),
    "mlp": (V1_0, PAIRS, peft.PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=7)),
    "gpt2_lstm": (GPT2, TEXT, peft.PromptEncoderConfig(num_virtual_tokens=3, encoder_hidden_size=5,
                                                       encoder_reparameterization_type="LSTM")),
    # d_kv isn't d_model / num_heads, and the decoder has more layers than the encoder: PEFT needs both as options
    "prefix": (V1_0, PAIRS, peft.PrefixTuningConfig(num_virtual_tokens=4, token_dim=18, num_layers=3)),
    "prefix_network": (V1_1, PAIRS, peft.PrefixTuningConfig(
        num_virtual_tokens=2, token_dim=18, num_layers=3, prefix_projection=True, encoder_hidden_size=5)),
    "gpt2_prefix": (GPT2, TEXT, peft.PrefixTuningConfig(num_virtual_tokens=3, prefix_projection=True)),
    "qwen3_prefix": (QWEN3, TEXT, peft.PrefixTuningConfig(num_virtual_tokens=3)),
    "mistral_prefix": (MISTRAL, TEXT, peft.PrefixTuningConfig(num_virtual_tokens=2)),
    "bert_prefix": (BERT, CLASS, peft.PrefixTuningConfig(num_virtual_tokens=3)),
    # Gemma's embedding has a scale, which applies to what LoRA adds and not to a prompt
    "gemma3_embedding": (GEMMA3, TEXT, peft.LoraConfig(**LORA, target_modules=["embed_tokens", "k_proj"])),
    "gemma_ia3": (GEMMA, TEXT, peft.IA3Config()),
    "gemma2_prompt": (GEMMA2, TEXT, peft.PromptTuningConfig(num_virtual_tokens=3)),
}
TRAINED = ("vera", "gpt2_vera", "loha", "qwen3_loha")  # with the losses of ten updates
MOST_LOGITS = 1000  # store the logits only of samples with fewer values


def load(base: pathlib.Path, task: str) -> torch.nn.Module:
    if task == PAIRS:
        return load_t5(base)
    kind = AutoModelForCausalLM if task == TEXT else AutoModelForSequenceClassification
    return kind.from_pretrained(base, dtype=torch.float32, attn_implementation="eager").eval()


def read_samples(base: pathlib.Path, task: str) -> list[dict]:
    if task == PAIRS:
        return json.loads((base / "batches.json").read_text())["batches"][0]["samples"]
    return json.loads((base / "batch.json").read_text())["samples"]


def rows_of(model: torch.nn.Module, samples: list[dict], task: str) -> list[torch.Tensor]:
    """The logits [U, V] of each sample."""
    if task == PAIRS:
        logits = model(**padded_pairs(samples), use_cache=False).logits
        return [logits[i, : len(sample["labels"])] for i, sample in enumerate(samples)]
    if task == CLASS:  # one by one: transformers finds the last token of a padded row by its ids, and a prompt has none
        return [model(input_ids=torch.tensor([sample["source"]])).logits for sample in samples]
    logits = model(**padded(samples)).logits
    first = logits.shape[1] - padded(samples)["input_ids"].shape[1]  # skip the rows of the prompt
    return [logits[i, first : first + len(sample["source"])] for i, sample in enumerate(samples)]


def loss_of(rows: list[torch.Tensor], samples: list[dict]) -> tuple[torch.Tensor, int]:
    """The summed loss, and the number of target tokens."""
    labels = [torch.tensor(sample["labels"]) for sample in samples]
    loss_sum = sum(cross_entropy(r, wanted, reduction="sum") for r, wanted in zip(rows, labels))
    return loss_sum, sum(int((wanted != -100).sum()) for wanted in labels)


def ten_losses(model: torch.nn.Module, samples: list[dict], task: str) -> list[float]:
    """The losses before each of ten AdamW updates with learning rate 0.01, without weight decay."""
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, weight_decay=0)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss_sum, count = loss_of(rows_of(model, samples, task), samples)
        (loss_sum / count).backward()
        optimizer.step()
        losses.append(loss_sum.item() / count)
    return losses


def saved_name(name: str) -> str:
    """The name of a PEFT model's parameter in the adapter file."""
    name = name.replace(".modules_to_save.default", "").replace("prompt_encoder.default.", "prompt_encoder.")
    if name.endswith(".lora_magnitude_vector.default.weight"):
        name = name.removesuffix(".weight")
    return name.replace(".default", "")


def make(name: str, base: pathlib.Path, task: str, settings: peft.PeftConfig) -> None:
    torch.manual_seed(len(name))
    folder, samples = FOLDER / name, read_samples(base, task)
    settings.task_type = task
    model = peft.get_peft_model(load(base, task), settings).eval()
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    if "pissa" not in name and "olora" not in name:  # for these, the initial values are tested
        with torch.no_grad():
            for parameter in trained.values():
                parameter.add_(0.1 * torch.randn_like(parameter))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.save_pretrained(folder)
    (folder / "README.md").unlink()
    (folder / "adapter_model.safetensors").chmod(0o644)
    saved = json.loads((folder / "adapter_config.json").read_text())
    saved["base_model_name_or_path"] = None
    for key in ("target_modules", "exclude_modules", "feedforward_modules"):
        if isinstance(saved.get(key), list):
            saved[key].sort()
    (folder / "adapter_config.json").write_text(json.dumps(saved, indent=2, sort_keys=True))

    rows = rows_of(model, samples, task)
    loss_sum, count = loss_of(rows, samples)
    (loss_sum / count).backward()
    tensors = {f"logits_{i}": row.detach().clone() for i, row in enumerate(rows) if row.numel() < MOST_LOGITS}
    for n, parameter in trained.items():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        tensors["gradient." + saved_name(n)] = gradient.clone()
        if "prompt_encoder" in n:
            tensors[saved_name(n)] = parameter.detach().clone()
    write_tensors(folder / "expected.safetensors", tensors)
    expected = {"base": str(base.relative_to(GOLDEN)), "task": task, "loss_sum": loss_sum.item(),
                "target_tokens": count}
    if name in TRAINED:
        expected["losses"] = ten_losses(model, samples, task)
    write_json(folder / "expected.json", expected)
    print(name, loss_sum.item() / count)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name in sys.argv[1:] or CASES:
        make(name, *CASES[name])
