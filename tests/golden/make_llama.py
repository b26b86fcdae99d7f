"""Writes llama/: the values that transformers computes for tiny models of LLaMA's architecture. README.md lists the
files.

Every sample runs alone and without padding; a packed batch must give the same results. Logits and gradients of the
first model are stored in full, all others as sketches that identify each tensor: its norm and a few projections.
"""

import json
import math
import pathlib

import torch
from golden_folder import GOLDEN, real_sizes, write_json, write_tensors
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, logging

logging.set_verbosity_error()
logging.disable_progress_bar()

FOLDER = GOLDEN / "llama"
NEW_TOKENS = 8
PROJECTIONS = 6

SIZES = dict(vocab_size=97, hidden_size=20, intermediate_size=28, num_hidden_layers=2, num_attention_heads=5,
             rms_norm_eps=1e-5, bos_token_id=1, eos_token_id=2)
LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=12)

# The config.json of each folder, with old and new names, and how its weights are stored.
MODELS = {
    "llama": dict(
        config=dict(model_type="llama", **SIZES, num_key_value_heads=1, attention_bias=True, mlp_bias=True,
                    max_position_embeddings=64, rope_parameters=LLAMA3, eos_token_id_list=[2, 5]),
        dtype=torch.bfloat16, shards=2, whole_gradients=True),
    "mistral": dict(
        config=dict(model_type="mistral", **SIZES, num_key_value_heads=5, head_dim=6, sliding_window=7,
                    max_position_embeddings=64, rope_theta=300.0, torch_dtype="float16"),
        dtype=torch.float16),
    "qwen2": dict(
        config=dict(model_type="qwen2", **SIZES, num_key_value_heads=5, tie_word_embeddings=True,
                    use_sliding_window=True, sliding_window=6, max_window_layers=1, max_position_embeddings=64,
                    rope_theta=1000.0, rope_scaling=dict(type="yarn", factor=2.0, original_max_position_embeddings=16)),
        dtype=torch.bfloat16),
    "qwen3": dict(
        config=dict(model_type="qwen3", **{**SIZES, "num_attention_heads": 6}, num_key_value_heads=2, head_dim=8,
                    use_sliding_window=True, sliding_window=5, layer_types=["sliding_attention", "full_attention"],
                    tie_word_embeddings=False, max_position_embeddings=64, rope_theta=1000.0),
        dtype=torch.bfloat16),
    "mistral_classifier": dict(
        config=dict(model_type="mistral", **{**SIZES, "num_hidden_layers": 1}, num_key_value_heads=1,
                    sliding_window=None, max_position_embeddings=64, pad_token_id=0, rope_theta=300.0,
                    id2label={"0": "low", "1": "middle", "2": "high"}, label2id={"low": 0, "middle": 1, "high": 2}),
        dtype=torch.bfloat16, classifier=True),
    "qwen3_classifier": dict(
        config=dict(model_type="qwen3", **{**SIZES, "num_hidden_layers": 1}, num_key_value_heads=5, head_dim=4,
                    max_position_embeddings=64, pad_token_id=0, rope_theta=300.0,
                    id2label={"0": "no", "1": "yes"}, label2id={"no": 0, "yes": 1}),
        dtype=torch.bfloat16, classifier=True),
    "rope": dict(
        config=dict(model_type="llama", **{**SIZES, "num_hidden_layers": 1}, num_key_value_heads=1, head_dim=8,
                    max_position_embeddings=64, rope_theta=50.0),
        dtype=torch.bfloat16),
    "smollm3": dict(
        config=dict(model_type="smollm3", **SIZES, num_key_value_heads=1, no_rope_layers=[1, 0],
                    use_sliding_window=True, sliding_window=6, max_position_embeddings=64, rope_theta=1000.0,
                    pad_token_id=0),
        dtype=torch.bfloat16),
}
CLASSES = {"smollm3": "SmolLM3"}  # of the others: the model type with a capital letter

# All kinds of rotary positions, with the weights of "rope"; samples are longer than the original positions.
ROPE = {
    "default": dict(rope_type="default"),
    "linear": dict(rope_type="linear", factor=2.5),
    "dynamic": dict(rope_type="dynamic", factor=2.0),
    "yarn": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, beta_fast=8.0, beta_slow=0.5),
    "yarn_mscale": dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=16, mscale=0.8,
                        mscale_all_dim=0.3, truncate=False),
    "yarn_factor": dict(rope_type="yarn", factor=2.0, original_max_position_embeddings=9, attention_factor=0.9),
    "longrope": dict(rope_type="longrope", factor=3.0, original_max_position_embeddings=20,
                     short_factor=[1.0, 1.1, 1.3, 1.7], long_factor=[1.0, 1.5, 3.0, 4.5]),
    "llama3": {**LLAMA3, "rope_theta": 50.0},
    "proportional": dict(rope_type="proportional", partial_rotary_factor=0.5, factor=1.5),
}

# config.json of real models, as in their folders; sizes only.
LLAMA31_ROPE = dict(factor=8.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192,
                    rope_type="llama3")
REAL = {
    "LLaMA-2-13B": dict(model_type="llama", hidden_size=5120, intermediate_size=13824, max_position_embeddings=4096,
                        num_attention_heads=40, num_hidden_layers=40, num_key_value_heads=40, pretraining_tp=1,
                        rms_norm_eps=1e-05, rope_scaling=None, tie_word_embeddings=False, vocab_size=32000),
    "LLaMA-7B": dict(model_type="llama", hidden_size=4096, intermediate_size=11008, num_attention_heads=32,
                     num_hidden_layers=32, rms_norm_eps=1e-06, vocab_size=32000, pad_token_id=-1),
    "Llama-3.1-8B": dict(model_type="llama", attention_bias=False, hidden_size=4096, intermediate_size=14336,
                         max_position_embeddings=131072, mlp_bias=False, num_attention_heads=32, num_hidden_layers=32,
                         num_key_value_heads=8, rope_scaling=LLAMA31_ROPE, rope_theta=500000.0,
                         tie_word_embeddings=False, vocab_size=128256),
    "Llama-3.2-1B": dict(model_type="llama", attention_bias=False, head_dim=64, hidden_size=2048,
                         intermediate_size=8192, max_position_embeddings=131072, mlp_bias=False,
                         num_attention_heads=32, num_hidden_layers=16, num_key_value_heads=8,
                         rope_scaling={**LLAMA31_ROPE, "factor": 32.0}, rope_theta=500000.0, tie_word_embeddings=True,
                         vocab_size=128256),
    "Mistral-7B-v0.3": dict(model_type="mistral", hidden_size=4096, intermediate_size=14336,
                            max_position_embeddings=32768, num_attention_heads=32, num_hidden_layers=32,
                            num_key_value_heads=8, rope_theta=1000000.0, sliding_window=None,
                            tie_word_embeddings=False, vocab_size=32768),
    "Qwen2.5-0.5B": dict(model_type="qwen2", hidden_size=896, intermediate_size=4864, max_position_embeddings=32768,
                         max_window_layers=24, num_attention_heads=14, num_hidden_layers=24, num_key_value_heads=2,
                         rope_theta=1000000.0, sliding_window=32768, tie_word_embeddings=True,
                         use_sliding_window=False, vocab_size=151936),
    "Qwen2.5-7B": dict(model_type="qwen2", hidden_size=3584, intermediate_size=18944, max_position_embeddings=131072,
                       max_window_layers=28, num_attention_heads=28, num_hidden_layers=28, num_key_value_heads=4,
                       rope_theta=1000000.0, sliding_window=131072, tie_word_embeddings=False,
                       use_sliding_window=False, vocab_size=152064),
    "Qwen3-0.6B": dict(model_type="qwen3", attention_bias=False, head_dim=128, hidden_size=1024,
                       intermediate_size=3072, max_position_embeddings=40960, max_window_layers=28,
                       num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, rope_theta=1000000,
                       sliding_window=None, tie_word_embeddings=True, use_sliding_window=False, vocab_size=151936),
    "Qwen3-8B": dict(model_type="qwen3", attention_bias=False, head_dim=128, hidden_size=4096,
                     intermediate_size=12288, max_position_embeddings=40960, max_window_layers=36,
                     num_attention_heads=32, num_hidden_layers=36, num_key_value_heads=8, rope_theta=1000000,
                     sliding_window=None, tie_word_embeddings=False, use_sliding_window=False, vocab_size=151936),
    "SmolLM3-3B": dict(model_type="smollm3", attention_bias=False, hidden_size=2048, intermediate_size=11008,
                       max_position_embeddings=65536, max_window_layers=28, mlp_bias=False, num_attention_heads=16,
                       num_hidden_layers=36, num_key_value_heads=4, pretraining_tp=2, rms_norm_eps=1e-06,
                       rope_scaling=None, rope_theta=5000000.0, sliding_window=None, use_sliding_window=False,
                       vocab_size=128256),
}
DYNAMIC_POSITIONS = 14  # "dynamic" changes beyond max_position_embeddings itself


def weights(model: torch.nn.Module, seed: int) -> None:
    """Random values as in a trained model: no norm is 1 and no bias 0."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(1 + 0.2 * noise)
            elif name.endswith("bias"):
                p.copy_(0.3 * noise)
            elif "embed_tokens" in name:
                p.copy_(0.6 * noise)
            elif "q_proj" in name or "k_proj" in name:
                p.copy_(1.5 * noise * p.shape[1] ** -0.5)  # so that attention isn't nearly uniform
            else:
                p.copy_(noise * p.shape[1] ** -0.5)


def load(folder: pathlib.Path, classifier: bool, **changes: object) -> torch.nn.Module:
    kind = AutoModelForSequenceClassification if classifier else AutoModelForCausalLM
    config = AutoConfig.from_pretrained(folder)
    for key, value in changes.items():
        setattr(config, key, value)
    model, report = kind.from_pretrained(folder, config=config, attn_implementation="eager", dtype=torch.float32,
                                         output_loading_info=True)
    assert not any(report.values()), f"{folder}: {report}"
    return model.eval()


def save(folder: pathlib.Path, case: dict, seed: int) -> None:
    config = dict(case["config"])
    eos = config.pop("eos_token_id_list", config["eos_token_id"])
    kind = AutoModelForSequenceClassification if case.get("classifier") else AutoModelForCausalLM
    folder.mkdir(parents=True, exist_ok=True)
    suffix = "ForSequenceClassification" if case.get("classifier") else "ForCausalLM"
    write_json(folder / "config.json", {**config, "eos_token_id": eos,
                                        "architectures": [CLASSES.get(config["model_type"],
                                                                      config["model_type"].capitalize()) + suffix]})
    model = kind.from_config(AutoConfig.from_pretrained(folder))
    weights(model, seed)
    tensors = {name: p.detach().to(case["dtype"]).contiguous() for name, p in model.named_parameters()}
    shards = case.get("shards", 1)
    if shards == 1:
        return write_tensors(folder / "model.safetensors", tensors)
    names, index = list(tensors), {}
    for i in range(shards):
        file = f"model-{i + 1:05}-of-{shards:05}.safetensors"
        part = {name: tensors[name] for name in names[i::shards]}
        save_file(part, folder / file, metadata={"format": "pt"})
        (folder / file).chmod(0o644)
        index.update({name: file for name in part})
    size = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": index})


def make_samples(classes: int, seed: int) -> list[dict]:
    """Random ids. The labels follow trainer's format: the token after each one, or the sample's class."""
    generator = torch.Generator().manual_seed(seed)
    samples = []
    for i, length in enumerate((9, 31, 2, 18)):
        ids = torch.randint(3, SIZES["vocab_size"], (length + 1,), generator=generator).tolist()
        labels = [i % classes] if classes else [-100] * (length // 3) + ids[length // 3 + 1:]
        samples.append({"source": ids[:-1], "labels": labels})
    if not classes:
        samples[1]["labels"][15] = -100  # one label in the middle doesn't count in the loss
    return samples


def reset(model: torch.nn.Module) -> None:
    """Resets transformers' "dynamic" positions, which remember the longest sample so far."""
    rope = model.model.rotary_emb
    rope.inv_freq, rope.max_seq_len_cached = rope.original_inv_freq.clone(), rope.original_max_seq_len


def logits_of(model: torch.nn.Module, sample: dict) -> torch.Tensor:
    """[U, V] of one sample, run alone."""
    reset(model)
    logits = model(input_ids=torch.tensor([sample["source"]]), use_cache=False).logits
    return logits if logits.dim() == 2 else logits[0]


def sketch(tensor: torch.Tensor) -> torch.Tensor:
    """The norm, and projections onto waves of several lengths, in fp64."""
    flat = tensor.double().flatten()
    at = torch.arange(1, flat.numel() + 1, dtype=torch.float64)
    waves = [torch.cos(at * (0.37 + 0.61 * k)) for k in range(PROJECTIONS)]
    return torch.stack([flat.norm(), *(flat @ wave for wave in waves)])


def check_padding(model: torch.nn.Module, samples: list[dict], alone: list[torch.Tensor]) -> None:
    """Checks that a padded batch with its mask gives the same logits in transformers."""
    longest = max(len(s["source"]) for s in samples)
    ids = torch.tensor([s["source"] + [0] * (longest - len(s["source"])) for s in samples])
    mask = torch.tensor([[1] * len(s["source"]) + [0] * (longest - len(s["source"])) for s in samples])
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    for row, sample, expected in zip(logits, samples, alone):
        assert ((row[: len(sample["source"])] - expected).norm() / expected.norm()).item() < 1e-5


def check_own_loss(model: torch.nn.Module, sample: dict, loss: float) -> None:
    """Checks transformers' own loss, which shifts the labels itself, on ids with one more token."""
    ids = sample["source"] + [3]
    labels = torch.tensor([[-100] + sample["labels"]])
    count = sum(label >= 0 for label in sample["labels"])
    own = model(input_ids=torch.tensor([ids]), labels=labels, use_cache=False).loss.item() * count
    assert math.isclose(own, loss, rel_tol=1e-5), f"{own} {loss}"


def run(model: torch.nn.Module, samples: list[dict], whole: bool) -> tuple[dict, dict]:
    """Scalars, and logits and gradients of the mean loss."""
    loss, alone = torch.zeros(()), []
    for sample in samples:
        alone.append(logits_of(model, sample))
        loss = loss + torch.nn.functional.cross_entropy(alone[-1], torch.tensor(sample["labels"]), reduction="sum")
    count = sum(label >= 0 for s in samples for label in s["labels"])
    (loss / count).backward()
    if "ForCausalLM" in type(model).__name__ and model.config.rope_parameters["rope_type"] not in ("dynamic",
                                                                                                  "longrope"):
        check_padding(model, samples, alone)
        first = torch.nn.functional.cross_entropy(alone[0], torch.tensor(samples[0]["labels"]), reduction="sum")
        check_own_loss(model, samples[0], first.item())
    tensors = {f"logits_{i}": logits.detach() for i, logits in enumerate(alone)}
    tensors.update({f"gradient.{name}": p.grad for name, p in model.named_parameters()})
    if not whole:
        tensors = {f"sketch.{name}": sketch(tensor) for name, tensor in tensors.items()}
    return {"loss_sum": loss.item(), "target_tokens": count}, tensors


def generate(model: torch.nn.Module, samples: list[dict]) -> dict:
    """Greedy generation; each sample's new tokens up to and including the end token."""
    ends = model.generation_config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    tokens = []
    for sample in samples:
        reset(model)
        output = model.generate(input_ids=torch.tensor([sample["source"]]), do_sample=False, pad_token_id=0,
                                max_new_tokens=NEW_TOKENS, output_logits=True, return_dict_in_generate=True)
        best = torch.stack(output.logits, dim=1).topk(2).values[0]
        assert (best[:, 0] - best[:, 1]).min() > 1e-3, "two tokens are almost equally likely: use another seed"
        tokens.append(output.sequences[0, len(sample["source"]):].tolist())
    return {"max_new_tokens": NEW_TOKENS, "ends": ends, "tokens": tokens}


def make_model(name: str, case: dict, seed: int) -> None:
    folder = FOLDER / name
    save(folder, case, seed)
    classifier = case.get("classifier", False)
    samples = make_samples(len(case["config"]["id2label"]) if classifier else 0, seed)
    write_json(folder / "batch.json", {"samples": samples})
    if name == "rope":
        return make_rope(folder, samples)
    scalars, tensors = run(load(folder, classifier), samples, case.get("whole_gradients", False))
    if not classifier:
        scalars["generation"] = generate(load(folder, classifier), samples)
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "expected.json", scalars)
    print(name, scalars)


def make_rope(folder: pathlib.Path, samples: list[dict]) -> None:
    """Writes one file for all kinds of positions."""
    scalars, tensors = {}, {}
    for kind, parameters in ROPE.items():
        changes = dict(rope_parameters={"rope_theta": 50.0, **parameters})
        if kind == "dynamic":
            changes["max_position_embeddings"] = DYNAMIC_POSITIONS
        model = load(folder, False, **changes)
        scalars[kind], found = run(model, samples, False)
        scalars[kind]["config"] = changes
        scalars[kind]["generation"] = generate(load(folder, False, **changes), samples)
        tensors.update({f"{kind}.{name}": tensor for name, tensor in found.items()})
        print(kind, scalars[kind])
    write_tensors(folder / "expected.safetensors", tensors)
    write_json(folder / "expected.json", scalars)


def build(config: dict) -> torch.nn.Module:
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))


if __name__ == "__main__":
    torch.set_num_threads(1)
    for number, (name, case) in enumerate(MODELS.items()):
        make_model(name, case, seed=20 + number)
    write_json(FOLDER / "sizes.json", real_sizes(build, REAL))
