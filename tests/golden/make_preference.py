"""Writes preference/: what TRL's DPOTrainer computes for a tiny LLaMA, trained whole and with LoRA, with each of the
losses. README.md lists the files. Needs trl besides the packages of requirements.txt."""

import json
import tempfile

import peft
import torch
from datasets import Dataset
from golden_folder import GOLDEN, random_weights, write_folder
from golden_t5 import write_json, write_tensors
from tokenizers import Tokenizer, models
from torch.utils.data import SequentialSampler
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedTokenizerFast, TrainerCallback
from trl import DPOConfig, DPOTrainer

FOLDER = GOLDEN / "preference"
VOCABULARY, PAIRS, BATCH, UPDATES = 61, 6, 3, 4
CONFIG = dict(model_type="llama", architectures=["LlamaForCausalLM"], vocab_size=VOCABULARY, hidden_size=16,
              intermediate_size=24, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1,
              max_position_embeddings=64, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2)
LORA = dict(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj", "down_proj"], task_type="CAUSAL_LM")
# sigmoid with label smoothing is no loss of this TRL any more; TRL before 1.0 and the paper define it.
CASES = {
    "sigmoid": dict(beta=0.1),
    "lora": dict(beta=0.3, lora=True),
    "accumulated": dict(beta=0.1, per_device_train_batch_size=1, gradient_accumulation_steps=BATCH),
    "robust": dict(beta=0.2, loss_type=["robust"], label_smoothing=0.2),
    "hinge": dict(beta=0.5, loss_type=["hinge"]),
    "ipo": dict(beta=0.1, loss_type=["ipo"]),
    "sigmoid_norm": dict(beta=2.0, loss_type=["sigmoid_norm"]),
    # TRL's mean of sft is over the tokens of a micro-batch: with one pair in each, it is the mean of the pair's.
    "rpo": dict(beta=0.1, loss_type=["sigmoid", "sft"], loss_weights=[1.0, 0.7], per_device_train_batch_size=1,
                gradient_accumulation_steps=BATCH),
}


def pairs() -> list[dict]:
    generator = torch.Generator().manual_seed(5)

    def ids(least: int, most: int) -> list[int]:
        length = int(torch.randint(least, most, (1,), generator=generator))
        return torch.randint(3, VOCABULARY, (length,), generator=generator).tolist()

    return [{"prompt_ids": ids(2, 7), "chosen_ids": ids(1, 9), "rejected_ids": ids(1, 9)} for _ in range(PAIRS)]


class InOrder(DPOTrainer):
    """Takes token ids, in their order, and keeps unrounded values."""

    def _prepare_dataset(self, dataset, *unused):
        return dataset

    def _get_train_sampler(self, dataset=None):
        return SequentialSampler(dataset or self.train_dataset)

    def _compute_loss(self, model, inputs, return_outputs):
        loss = super()._compute_loss(model, inputs, return_outputs)
        self.seen.append({"loss": (loss[0] if return_outputs else loss).item()} |
                         {name: self._metrics["train"]["rewards/" + name][-1]
                          for name in ("chosen", "rejected", "accuracies", "margins")})
        return loss


class FirstGradients(TrainerCallback):
    def __init__(self):
        self.gradients = {}

    def on_pre_optimizer_step(self, args, state, control, model=None, **unused):
        if not self.gradients:
            self.gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def train(name: str, lora: bool = False, **options) -> tuple[dict, dict]:
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32, attn_implementation="eager")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"<pad>": 0, "</s>": 2})),
                                        pad_token="<pad>", eos_token="</s>")
    arguments = DPOConfig(**{"per_device_train_batch_size": BATCH} | options, output_dir=tempfile.mkdtemp(),
                          use_cpu=True, max_steps=UPDATES, learning_rate=0.5, lr_scheduler_type="constant", optim="sgd",
                          max_grad_norm=0, logging_steps=1, report_to="none", save_strategy="no", bf16=False,
                          gradient_checkpointing=False, max_length=None)
    torch.manual_seed(1)
    gradients = FirstGradients()
    trainer = InOrder(model=model, args=arguments, processing_class=tokenizer, callbacks=[gradients],
                      train_dataset=Dataset.from_list(pairs()), peft_config=peft.LoraConfig(**LORA) if lora else None)
    trainer.seen = []
    if lora:
        trainer.model.save_pretrained(FOLDER / "adapter")
        (FOLDER / "adapter" / "README.md").unlink()
        saved = json.loads((FOLDER / "adapter" / "adapter_config.json").read_text())
        saved |= {"base_model_name_or_path": None, "target_modules": sorted(saved["target_modules"])}
        write_json(FOLDER / "adapter" / "adapter_config.json", saved)
    trainer.train()
    end = {n: p.detach() for n, p in trainer.model.named_parameters() if p.requires_grad}
    short = lambda n: n.replace(".default", "")
    tensors = {f"{name}.gradient.{short(n)}": v for n, v in gradients.gradients.items()}
    tensors |= {f"{name}.end.{short(n)}": v for n, v in end.items()}
    return {"options": options | {"lora": lora}, "batches": trainer.seen}, tensors


def main() -> None:
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**CONFIG), dtype=torch.float32)
    write_folder(FOLDER, CONFIG, random_weights(model, 4), torch.float32)
    expected, tensors = {}, {}
    for name, options in CASES.items():
        expected[name], found = train(name, **options)
        tensors |= found
    write_json(FOLDER / "expected.json", {"pairs": pairs(), "cases": expected})
    write_tensors(FOLDER / "expected.safetensors", {name: value.contiguous() for name, value in tensors.items()})


if __name__ == "__main__":
    main()
