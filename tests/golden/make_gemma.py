"""Writes gemma/: the values that transformers computes for tiny models of Gemma 1, 2 and 3. README.md lists the files.

As in make_llama.py, every sample runs alone, and tensors are stored as sketches.
"""

import make_llama
import torch
from golden_folder import GOLDEN, real_sizes, write_json, write_tensors
from make_llama import check_padding, make_samples, sketch
from torch.nn.functional import cross_entropy
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

FOLDER = GOLDEN / "gemma"
UPDATES, RATE = 10, 3e-3

# The soft caps are below most scores and logits, the windows are shorter than the samples.
SIZES = dict(vocab_size=97, hidden_size=20, intermediate_size=28, num_attention_heads=5, rms_norm_eps=1e-5,
             max_position_embeddings=64)
CAPS = dict(attn_logit_softcapping=2.0, final_logit_softcapping=4.0)
CLASSES = dict(id2label={"0": "low", "1": "middle", "2": "high"}, label2id={"low": 0, "middle": 1, "high": 2})
MODELS = {
    "gemma": dict(
        architecture="GemmaForCausalLM",
        config=dict(model_type="gemma", **SIZES, num_hidden_layers=2, num_key_value_heads=1, head_dim=8,
                    hidden_act="gelu_pytorch_tanh", hidden_activation=None, attention_bias=True, rope_theta=300.0,
                    bos_token_id=1, eos_token_id=[2, 5])),
    "gemma2": dict(
        architecture="Gemma2ForCausalLM", seed=43,
        config=dict(model_type="gemma2", **SIZES, num_hidden_layers=3, num_key_value_heads=5, head_dim=6, **CAPS,
                    hidden_act="silu", hidden_activation="gelu_pytorch_tanh", query_pre_attn_scalar=9,
                    sliding_window=5, rope_theta=300.0, eos_token_id=1, cache_implementation="hybrid")),
    "gemma3": dict(
        architecture="Gemma3ForCausalLM", seed=41,
        config=dict(model_type="gemma3_text", **{**SIZES, "num_attention_heads": 4}, num_hidden_layers=3,
                    num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=4,
                    sliding_window_pattern=2, rope_theta=5000.0, rope_local_base_freq=50.0,
                    rope_scaling=dict(rope_type="linear", factor=4.0), final_logit_softcapping=4.0,
                    tie_word_embeddings=False, eos_token_id=[1, 7])),
    "gemma_classifier": dict(
        architecture="GemmaForSequenceClassification",
        config=dict(model_type="gemma", **SIZES, num_hidden_layers=1, num_key_value_heads=5, head_dim=4, **CLASSES)),
    "gemma2_classifier": dict(
        architecture="Gemma2ForSequenceClassification",
        config=dict(model_type="gemma2", **SIZES, num_hidden_layers=2, num_key_value_heads=1, head_dim=8, **CAPS,
                    layer_types=["full_attention", "sliding_attention"], sliding_window=3, query_pre_attn_scalar=8,
                    **CLASSES)),
    "gemma3_classifier": dict(
        architecture="Gemma3TextForSequenceClassification",
        config=dict(model_type="gemma3_text", **SIZES, num_hidden_layers=2, num_key_value_heads=5, head_dim=6,
                    layer_types=["sliding_attention", "full_attention"], sliding_window=3, query_pre_attn_scalar=6,
                    rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=700.0),
                                         sliding_attention=dict(rope_type="linear", factor=2.0, rope_theta=90.0)),
                    **CLASSES)),
}

# config.json of real models, as in their folders; sizes only.
REAL = {
    "gemma-2b": dict(model_type="gemma", head_dim=256, hidden_act="gelu", hidden_size=2048, intermediate_size=16384,
                     max_position_embeddings=8192, num_attention_heads=8, num_hidden_layers=18, num_key_value_heads=1,
                     vocab_size=256000),
    "gemma-7b": dict(model_type="gemma"),
    "gemma-2-2b": dict(model_type="gemma2", num_attention_heads=8, num_hidden_layers=26, sliding_window=4096,
                       cache_implementation="hybrid"),
    "gemma-2-9b": dict(model_type="gemma2", hidden_size=3584, intermediate_size=14336, num_attention_heads=16,
                       num_hidden_layers=42, num_key_value_heads=8),
    "gemma-3-1b": dict(model_type="gemma3_text", attn_logit_softcapping=None, final_logit_softcapping=None,
                       head_dim=256, hidden_activation="gelu_pytorch_tanh", hidden_size=1152, intermediate_size=6912,
                       max_position_embeddings=32768, num_attention_heads=4, num_hidden_layers=26,
                       num_key_value_heads=1, query_pre_attn_scalar=256, rope_local_base_freq=10000,
                       rope_scaling=None, rope_theta=1000000, sliding_window=512, sliding_window_pattern=6,
                       vocab_size=262144),
}


def weights(model: torch.nn.Module, seed: int) -> None:
    """Random values as in a trained model: no norm is 0 (a factor of 1)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name or name.endswith("bias"):
                p.copy_(0.3 * noise)
            elif "embed_tokens" in name:
                p.copy_(0.1 * noise)
            elif "q_proj" in name or "k_proj" in name:
                p.copy_(2 * noise * p.shape[1] ** -0.5)  # so that attention isn't nearly uniform
            else:
                p.copy_(noise * p.shape[1] ** -0.5)


def save(folder, case: dict, seed: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", {**case["config"], "architectures": [case["architecture"]]})
    kind = AutoModelForSequenceClassification if "Classification" in case["architecture"] else AutoModelForCausalLM
    model = kind.from_config(AutoConfig.from_pretrained(folder))
    assert type(model).__name__ == case["architecture"]
    weights(model, seed)
    tensors = {name: p.detach().to(torch.bfloat16).contiguous() for name, p in model.named_parameters()}
    write_tensors(folder / "model.safetensors", tensors)


def loss_of(model: torch.nn.Module, samples: list[dict]) -> tuple[torch.Tensor, int, list[torch.Tensor]]:
    """The sum over all labels, their number, and the logits of each sample, run alone."""
    alone, loss = [], torch.zeros(())
    for sample in samples:
        logits = model(input_ids=torch.tensor([sample["source"]]), use_cache=False).logits
        alone.append(logits if logits.dim() == 2 else logits[0])
        loss = loss + cross_entropy(alone[-1], torch.tensor(sample["labels"]), reduction="sum")
    return loss, sum(label >= 0 for s in samples for label in s["labels"]), alone


def train(model: torch.nn.Module, samples: list[dict]) -> list[float]:
    """The loss before each of ten AdamW updates, without decay."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0)
    losses = []
    for _ in range(UPDATES):
        loss, count, _ = loss_of(model, samples)
        losses.append(loss.item() / count)
        optimizer.zero_grad()
        (loss / count).backward()
        optimizer.step()
    return losses


def make_model(name: str, case: dict, seed: int) -> None:
    folder = FOLDER / name
    save(folder, case, seed)
    classifier = "Classification" in case["architecture"]
    samples = make_samples(len(CLASSES["id2label"]) if classifier else 0, seed)
    write_json(folder / "batch.json", {"samples": samples})
    model = make_llama.load(folder, classifier)
    loss, count, alone = loss_of(model, samples)
    (loss / count).backward()
    if not classifier:
        check_padding(model, samples, alone)
    tensors = {f"logits_{i}": logits.detach() for i, logits in enumerate(alone)}
    tensors.update({f"gradient.{name}": p.grad for name, p in model.named_parameters()})
    write_tensors(folder / "expected.safetensors", {f"sketch.{name}": sketch(tensor) for name, tensor in tensors.items()})
    scalars = {"loss_sum": loss.item(), "target_tokens": count, "learning_rate": RATE,
               "losses": train(make_llama.load(folder, classifier), samples)}
    if not classifier:
        scalars["generation"] = make_llama.generate(make_llama.load(folder, False), samples)
    write_json(folder / "expected.json", scalars)
    print(name, scalars)


if __name__ == "__main__":
    torch.set_num_threads(1)
    make_llama.reset = lambda model: None  # no positions that change with the samples
    for number, (name, case) in enumerate(MODELS.items()):
        make_model(name, case, seed=case.get("seed", 40 + number))
    write_json(FOLDER / "sizes.json", real_sizes(make_llama.build, REAL))
