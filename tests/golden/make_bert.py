"""Writes bert/: the values that transformers computes for tiny BERT classifiers. README.md lists the files."""

import torch
from golden_folder import (GOLDEN, expect, padded, random_samples, random_weights, real_sizes, write_folder, write_json,
                           write_tensors)
from transformers import BertConfig, BertForSequenceClassification, Trainer, logging

logging.set_verbosity_error()
logging.disable_progress_bar()
CASES = {
    # The usual configuration, with named classes.
    "named": dict(
        seed=4, stored=torch.float32, labels=[1, 0, 2, 2],
        config=dict(model_type="bert", vocab_size=29, hidden_size=10, num_hidden_layers=2, num_attention_heads=2,
                    intermediate_size=13, max_position_embeddings=17, type_vocab_size=2, hidden_dropout_prob=0.0,
                    attention_probs_dropout_prob=0.0, id2label={"0": "bad", "1": "fair", "2": "good"},
                    label2id={"bad": 0, "fair": 1, "good": 2})),
    # Older keys, unnamed classes, another activation, three heads of odd width, weights in bf16.
    "counted": dict(
        seed=6, stored=torch.bfloat16, labels=[3, -100, 0, 1],
        config=dict(model_type="bert", vocab_size=23, hidden_size=9, num_hidden_layers=1, num_attention_heads=3,
                    intermediate_size=11, max_position_embeddings=15, type_vocab_size=3, hidden_act="gelu_new",
                    hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, classifier_dropout=0.0,
                    layer_norm_eps=1e-5, num_labels=4, position_embedding_type="absolute", torch_dtype="bfloat16",
                    problem_type="single_label_classification")),
}
SIZES = {
    "bert-base-uncased": dict(model_type="bert"),
    "bert-large-cased": dict(model_type="bert", vocab_size=28996, hidden_size=1024, num_hidden_layers=24,
                             num_attention_heads=16, intermediate_size=4096, num_labels=3),
}


def make_case(name: str, case: dict) -> None:
    folder = GOLDEN / "bert" / name
    torch.manual_seed(0)
    fresh = BertForSequenceClassification(BertConfig(**{k: v for k, v in case["config"].items() if k != "torch_dtype"}))
    write_folder(folder, case["config"], random_weights(fresh, case["seed"]), case["stored"])
    model = BertForSequenceClassification.from_pretrained(folder, dtype=torch.float32,
                                                          attn_implementation="eager").eval()
    samples = random_samples([6, 1, 13, 4], 1, model.config.vocab_size, torch.Generator().manual_seed(case["seed"]))
    for sample, label in zip(samples, case["labels"]):
        sample["labels"] = [label]
    scalars, tensors = expect(model, samples, lambda logits, i: logits[i : i + 1])
    loss = model(**padded(samples), labels=torch.tensor(case["labels"])).loss.item()
    assert abs(loss - scalars["loss_sum"] / scalars["target_tokens"]) < 1e-5 * loss
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
    write_json(GOLDEN / "bert" / "sizes.json", real_sizes(lambda c: BertForSequenceClassification(BertConfig(**c)), SIZES))
