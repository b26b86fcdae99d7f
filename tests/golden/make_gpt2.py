"""Writes gpt2/: the values that transformers computes for tiny GPT-2 models. README.md lists the files."""

import torch
from golden_folder import (GOLDEN, expect, padded, random_samples, random_weights, real_sizes, write_folder, write_json,
                           write_tensors)
from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel, Trainer, logging

logging.set_verbosity_error()
logging.disable_progress_bar()
END = 1  # the token that ends a text
DROPOUT = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
CASES = {
    # GPT-2's own names for sizes, a tied head.
    "causal": dict(
        model=GPT2LMHeadModel, seed=3, stored=torch.float32,
        config=dict(model_type="gpt2", vocab_size=29, n_positions=19, n_ctx=19, n_embd=9, n_layer=2, n_head=3,
                    n_inner=14, bos_token_id=END, eos_token_id=END, **DROPOUT)),
    # The names that all families share, n_inner omitted, an untied head, weights in bf16.
    "variant": dict(
        model=GPT2LMHeadModel, seed=5, stored=torch.bfloat16,
        config=dict(model_type="gpt2", vocab_size=23, max_position_embeddings=19, hidden_size=6, num_hidden_layers=3,
                    num_attention_heads=2, n_inner=None, activation_function="silu", layer_norm_epsilon=1e-3,
                    scale_attn_by_inverse_layer_idx=True, reorder_and_upcast_attn=True, tie_word_embeddings=False,
                    torch_dtype="bfloat16", bos_token_id=END, eos_token_id=END, **DROPOUT)),
    # Sequence classification, weights in fp16, unscaled attention.
    "classes": dict(
        model=GPT2ForSequenceClassification, seed=8, stored=torch.float16,
        config=dict(model_type="gpt2", vocab_size=23, n_positions=19, n_embd=8, n_layer=2, n_head=2, n_inner=11,
                    activation_function="relu", scale_attn_weights=False, dtype="float16", pad_token_id=0,
                    id2label={"0": "down", "1": "same", "2": "up"}, label2id={"down": 0, "same": 1, "up": 2},
                    **DROPOUT)),
}
SIZES = {
    "gpt2": dict(model_type="gpt2"),
    "gpt2-medium": dict(model_type="gpt2", n_embd=1024, n_layer=24, n_head=16),
    "gpt2-large": dict(model_type="gpt2", n_embd=1280, n_layer=36, n_head=20),
    "gpt2-xl": dict(model_type="gpt2", n_embd=1600, n_layer=48, n_head=25),
}


def add_labels(samples: list[dict], classifies: bool) -> None:
    if classifies:
        for i, sample in enumerate(samples):
            sample["labels"] = [[2, -100, 0, 1][i]]
        return
    for sample in samples:
        sample["labels"] = sample["source"][1:] + [-100]  # the token that follows; nothing follows the last one
    samples[0]["labels"][:3] = [-100] * 3  # a prompt that doesn't count in the loss
    samples[2]["labels"][4] = -100


def generate(model: GPT2LMHeadModel, samples: list[dict], new_tokens: int) -> dict:
    """Greedy generation, each sample alone; the new tokens up to and including the end token."""
    tokens = []
    for sample in samples:
        ids = torch.tensor([sample["source"]])
        output = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), do_sample=False, num_beams=1,
                                max_new_tokens=new_tokens, pad_token_id=0)[0].tolist()
        tokens.append(output[len(sample["source"]):])
    return {"max_new_tokens": new_tokens, "tokens": tokens}


def make_case(name: str, case: dict) -> None:
    folder, classifies = GOLDEN / "gpt2" / name, case["model"] is GPT2ForSequenceClassification
    torch.manual_seed(0)
    fresh = case["model"](GPT2Config(**{k: v for k, v in case["config"].items() if k != "torch_dtype"}))
    write_folder(folder, case["config"], random_weights(fresh, case["seed"]), case["stored"])
    model = case["model"].from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    samples = random_samples([6, 1, 13, 4], 2, model.config.vocab_size, torch.Generator().manual_seed(case["seed"]))
    add_labels(samples, classifies)

    def logits_of(logits: torch.Tensor, i: int) -> torch.Tensor:
        return logits[i : i + 1] if classifies else logits[i, : len(samples[i]["source"])]

    scalars, tensors = expect(model, samples, logits_of)
    if not classifies:  # transformers' own loss, which shifts the labels itself
        theirs = padded(samples)
        hidden = torch.full_like(theirs["input_ids"], -100)
        for i, sample in enumerate(samples):
            hidden[i, 1 : len(sample["source"])] = torch.tensor(sample["labels"][:-1])
        loss = model(**theirs, labels=hidden).loss.item()
        assert abs(loss - scalars["loss_sum"] / scalars["target_tokens"]) < 1e-5 * loss
        scalars["generation"] = generate(model, samples, 6)
    scalars["not_decayed"] = sorted({n for n, _ in model.named_parameters()}
                                    - set(Trainer.get_decay_parameter_names(None, model)))
    write_json(folder / "batch.json", {"samples": samples})
    write_json(folder / "expected.json", scalars)
    write_tensors(folder / "expected.safetensors", tensors)
    print(name, scalars)


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, case in CASES.items():
        make_case(name, case)
    write_json(GOLDEN / "gpt2" / "sizes.json", real_sizes(lambda c: GPT2LMHeadModel(GPT2Config(**c)), SIZES))
