"""Trains a job with transformers' Trainer and PEFT, whose known mistakes with losses are put right here."""

import datasets
import peft
import torch
import transformers
from safetensors.torch import load_file

MODELS = {"causal_lm": transformers.AutoModelForCausalLM, "seq2seq_lm": transformers.AutoModelForSeq2SeqLM,
          "sequence_classification": transformers.AutoModelForSequenceClassification}
LEARNED_PROMPTS = ("PROMPT_TUNING", "P_TUNING")


class Log(transformers.TrainerCallback):
    def __init__(self):
        self.lines = []

    def on_log(self, args, state, control, logs=None, **_):
        self.lines.append({**logs, "step": state.global_step})


def save_model(job, folder):
    """A model with random values of a size that makes every part count."""
    torch.manual_seed(job.seed)
    model = MODELS[job.task].from_config(job.config, attn_implementation="eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.15)
            else:
                parameter.add_(torch.randn_like(parameter) * 0.1)
        model.tie_weights()
    model.save_pretrained(folder / "model")
    job.tokenizer.save_pretrained(folder / "model")
    return model


def in_four_bits(job, folder):
    """The model of the folder with the weights that bitsandbytes makes of it, in fp32: its kernels for CPUs round more."""
    options = transformers.BitsAndBytesConfig(**job.quantization, bnb_4bit_compute_dtype=torch.float32)
    model = MODELS[job.task].from_pretrained(folder, attn_implementation="eager", dtype=torch.float32, device_map="cpu",
                                             quantization_config=options)
    return model.dequantize()


def with_adapter(job, model, folder):
    model = peft.get_peft_model(model, peft.get_peft_config({"peft_type": "LORA", **job.peft}))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "magnitude" in name:
                parameter.mul_(1 + 0.1 * torch.rand_like(parameter))
            elif "lora_" in name or "hada_" in name:
                parameter.normal_(0, 0.1)
            elif "ia3_" in name:
                parameter.normal_(1, 0.1)
            elif "vera_lambda" in name or "prompt" in name:
                parameter.normal_(0, 0.3)
    model.save_pretrained(folder / "adapter")
    return model


def encoded(job, record):
    tokenizer, length = job.tokenizer, job.max_length
    ids = tokenizer(record["text"])["input_ids"]
    if job.task == "causal_lm":
        ids = (ids + [tokenizer.eos_token_id])[:length]
        return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": list(ids)}
    ids = tokenizer(record["text"], truncation=True, max_length=length)["input_ids"]
    labels = record["label"] if job.task == "sequence_classification" else tokenizer(
        text_target=record["label"], truncation=True, max_length=job.max_target_length)["input_ids"]
    return {"input_ids": ids, "attention_mask": [1] * len(ids), "labels": labels}


def loss_of(job):
    """The mean over the learned tokens, or samples, of an update. Models without num_items_in_batch add up means."""
    smoothing = job.arguments.get("label_smoothing_factor", 0.0)

    def loss(outputs, labels, num_items_in_batch=None):
        logits = outputs["logits"]
        if job.task == "causal_lm":
            logits, labels = logits[:, -labels.shape[1]:][:, :-1], labels[:, 1:]
        logs = torch.log_softmax(logits.float().reshape(-1, logits.shape[-1]), -1)
        labels = labels.reshape(-1)
        logs, labels = logs[labels != -100], labels[labels != -100]
        losses = -(1 - smoothing) * logs.gather(1, labels[:, None])[:, 0] - smoothing * logs.mean(-1)
        return losses.sum() / (len(labels) if num_items_in_batch is None else num_items_in_batch)

    return loss


def train(job, folder):
    """The logged lines, and the tensors of the model or adapter at the end."""
    model = save_model(job, folder)
    if job.quantization:
        model = in_four_bits(job, folder / "model")
    if job.peft:
        model = with_adapter(job, model, folder)
    of_text = job.task == "seq2seq_lm"
    arguments = (transformers.Seq2SeqTrainingArguments if of_text else transformers.TrainingArguments)(
        output_dir=str(folder / "peer"), logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True, use_cpu=True,
        **job.arguments)
    if job.task == "sequence_classification":
        collator = transformers.DataCollatorWithPadding(job.tokenizer)
    else:
        collator = transformers.DataCollatorForSeq2Seq(job.tokenizer, model if of_text else None)
    log = Log()
    # A learned prompt hides the model's class from the Trainer, which then smooths labels of the wrong positions.
    own_loss = job.task != "causal_lm" or job.family == "gpt2" or job.kind in LEARNED_PROMPTS + ("PREFIX_TUNING",)
    trainer = (transformers.Seq2SeqTrainer if of_text else transformers.Trainer)(
        model=model, args=arguments, data_collator=collator, processing_class=job.tokenizer, callbacks=[log],
        train_dataset=datasets.Dataset.from_list([encoded(job, record) for record in job.train]),
        eval_dataset=datasets.Dataset.from_list([encoded(job, record) for record in job.held_out]),
        compute_loss_func=loss_of(job) if own_loss else None)
    trainer._loss_shifts_labels = job.task == "causal_lm"  # GPT-2's class isn't known to do so
    trainer.remove_callback(transformers.PrinterCallback)
    trainer.train()
    if not job.peft:
        return log.lines, {name: value.detach().clone() for name, value in model.state_dict().items()}
    model.save_pretrained(folder / "peer_adapter")
    return log.lines, load_file(folder / "peer_adapter" / "adapter_model.safetensors")


def loaded(job, folder):
    """The model as the peer loads it from what trainer wrote; an adapter, on the model before it was quantized."""
    auto = MODELS[job.task]
    where = folder / ("model" if job.peft else "out")
    model = auto.from_pretrained(where, attn_implementation="eager", dtype=torch.float32)
    return (peft.PeftModel.from_pretrained(model, folder / "out") if job.peft else model).eval()
