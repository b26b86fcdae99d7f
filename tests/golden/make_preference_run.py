"""Writes preference_run/: runs of TRL's DPOTrainer on records with pairs of replies, from the text of the records to the
rewards of each update and of the evaluation after them. README.md lists the files. Needs trl besides the packages of
requirements.txt."""

import json
import tempfile

import peft
import torch
from datasets import Dataset
from golden_folder import GOLDEN, random_weights, write_folder
from golden_t5 import write_json
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.utils.data import SequentialSampler
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast
from trl import DPOConfig, DPOTrainer

FOLDER = GOLDEN / "preference_run"
PAIRS, HELD_OUT, BATCH, UPDATES, MAX_LENGTH = 16, 6, 4, 6, 84
SPECIAL = ["<pad>", "<s>", "</s>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + "
            "'\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
WORDS = ("the a small old river bridge market train letter morning evening city garden winter engine report was were "
         "crosses sells leaves arrives reads writes finds keeps near under behind slowly early late quietly never").split()
LORA = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
# The options of both programs; TRL's own beside them.
CASES = {
    "texts": dict(records="texts", dpo=dict(beta=0.3), learning_rate=1e-2, per_device=BATCH),
    "replies_alone": dict(records="replies_alone", dpo=dict(beta=0.1, loss_type="ipo"), learning_rate=1e-2, per_device=2),
    "dialogues": dict(records="dialogues", dpo=dict(beta=0.3), learning_rate=1e-1, per_device=BATCH, lora=True),
    "dialogues_hinge": dict(records="dialogues", dpo=dict(beta=0.5, loss_type="hinge"), learning_rate=1e-1, per_device=2,
                            lora=True),
}


def records() -> dict[str, list[dict]]:
    """The same kind of pairs with a prompt of its own, with one that both replies begin with, and as dialogues."""
    generator = torch.Generator().manual_seed(11)

    def sentence(least: int, most: int) -> str:
        count = int(torch.randint(least, most, (1,), generator=generator))
        return " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (count,), generator=generator).tolist())

    every = {"texts": [], "replies_alone": [], "dialogues": []}
    for i in range(PAIRS + HELD_OUT):
        prompt, good, bad = sentence(3, 9), sentence(2, 8), sentence(2, 8)
        if i == 5:
            good = sentence(90, 100)  # longer than MAX_LENGTH
        every["texts"].append({"prompt": prompt + "?", "chosen": " " + good, "rejected": " " + bad})
        head = f"\n\nHuman: {prompt}?\n\nAssistant:"
        every["replies_alone"].append({"chosen": f"{head} {good}", "rejected": f"{head} {bad}"})
        before = [{"role": "user", "content": prompt}]
        if i % 3 == 1:
            before = [{"role": "system", "content": "be brief"}] + before
        if i % 4 == 2:
            before += [{"role": "assistant", "content": sentence(1, 4)}, {"role": "user", "content": sentence(2, 5)}]
        every["dialogues"].append({"chosen": before + [{"role": "assistant", "content": good}],
                                   "rejected": before + [{"role": "assistant", "content": bad}]})
    return every


def make_tokenizer(lines: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=340, special_tokens=SPECIAL, show_progress=False,
                                                             initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>",
                                   chat_template=TEMPLATE)


class InOrder(DPOTrainer):
    """Takes samples in their order, and keeps unrounded values."""

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset or self.train_dataset)

    def _compute_loss(self, model, inputs, return_outputs):
        mode = "train" if self.model.training else "eval"
        loss = super()._compute_loss(model, inputs, return_outputs)
        self.seen[mode].append({"loss": (loss[0] if return_outputs else loss).item()} |
                               {name: self._metrics[mode]["rewards/" + name][-1]
                                for name in ("chosen", "rejected", "accuracies", "margins")})
        return loss


def mean(parts: list[dict]) -> dict:
    return {name: sum(part[name] for part in parts) / len(parts) for name in parts[0]}


def train(pairs: list[dict], dpo: dict, learning_rate: float, per_device: int, lora: bool = False) -> dict:
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager")
    options = {name: [value] if name == "loss_type" else value for name, value in dpo.items()}
    arguments = DPOConfig(**options, output_dir=tempfile.mkdtemp(), use_cpu=True, max_steps=UPDATES,
                          per_device_train_batch_size=per_device, gradient_accumulation_steps=BATCH // per_device,
                          per_device_eval_batch_size=2, learning_rate=learning_rate, lr_scheduler_type="linear",
                          optim="adamw_torch", max_grad_norm=1.0, logging_steps=1, report_to="none", save_strategy="no",
                          bf16=False, gradient_checkpointing=False, max_length=MAX_LENGTH, precompute_ref_log_probs=True)
    torch.manual_seed(1)
    trainer = InOrder(model=model, args=arguments, processing_class=PreTrainedTokenizerFast.from_pretrained(FOLDER),
                      train_dataset=Dataset.from_list(pairs[:PAIRS]), eval_dataset=Dataset.from_list(pairs[PAIRS:]),
                      peft_config=peft.LoraConfig(**LORA) if lora else None)
    assert len(trainer.train_dataset) == PAIRS and len(trainer.eval_dataset) == HELD_OUT, "a pair was dropped"
    trainer.seen = {"train": [], "eval": []}
    if lora:
        save_adapter(trainer.model)
    trainer.train()
    trainer.evaluate()
    parts = BATCH // per_device
    seen = trainer.seen["train"]
    return {"updates": [mean(seen[i * parts:(i + 1) * parts]) for i in range(UPDATES)],
            "evaluation": mean(trainer.seen["eval"])}


def save_adapter(model) -> None:
    model.save_pretrained(FOLDER / "adapter")
    (FOLDER / "adapter" / "README.md").unlink()
    saved = json.loads((FOLDER / "adapter" / "adapter_config.json").read_text())
    saved |= {"base_model_name_or_path": None, "target_modules": sorted(saved["target_modules"])}
    write_json(FOLDER / "adapter" / "adapter_config.json", saved)


def main() -> None:
    every = records()
    lines = [text for pair in every["replies_alone"] for text in pair.values()]
    tokenizer = make_tokenizer(lines)
    config = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=len(tokenizer), hidden_size=32,
                  intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                  max_position_embeddings=256, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2, pad_token_id=0)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.float32)
    write_folder(FOLDER, config, random_weights(model, 4), torch.float32)
    tokenizer.save_pretrained(FOLDER)
    for name, pairs in every.items():
        (FOLDER / f"{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs[:PAIRS]))
        (FOLDER / f"{name}.held_out.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs[PAIRS:]))
    expected = {}
    for name, case in CASES.items():
        options = {key: value for key, value in case.items() if key != "records"}
        expected[name] = case | train(every[case["records"]], **options)
    write_json(FOLDER / "expected.json", {"batch": BATCH, "updates": UPDATES, "max_length": MAX_LENGTH, "cases": expected})


if __name__ == "__main__":
    main()
