"""The job of PEFT's sequence-to-sequence LoRA tutorial, written as a typical Accelerate script; and a causal one.

Trains on sentences `sentence@label`, T5 with LoRA (r 8, alpha 32, dropout 0.1, targets q and v). `--padding max` pads
every sentence to the maximum length and uses torch's AdamW, as the tutorial does. `--padding dynamic` is the tuned
form: it pads to the longest sentence of the batch and uses fused AdamW.
A causal model learns the lines as one text, cut into samples of `--length` tokens as transformers' run_clm.py cuts them,
so that nothing is padded, or, with `--ragged`, each line as a sample of its own, padded as above. Its attention is SDPA,
transformers' default, which takes the fastest that the GPU has; there, frozen weights stay in the dtype of the folder.
Samples are used in the file's order, so trainer can use the same batches. Rank 0 writes OUTPUT/metrics.jsonl with
trainer's keys; `tokens` counts the real source and target tokens of all ranks.
"""

import argparse
import json
import pathlib
import time

import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import (AutoConfig, AutoModelForCausalLM, BitsAndBytesConfig, T5ForConditionalGeneration, T5Tokenizer,
                          get_linear_schedule_with_warmup)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="folder with weights and spiece.model")
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--padding", choices=["max", "dynamic"], default="dynamic")
    parser.add_argument("--strategy", choices=["ddp", "fsdp2"], default="ddp", help="strategy for several ranks")
    parser.add_argument("--full", action="store_true", help="train every weight, without LoRA")
    parser.add_argument("--quantize", action="store_true", help="the base of a causal model in nf4, by bitsandbytes")
    parser.add_argument("--compute_dtype", choices=["float32", "bfloat16"], default="float32",
                        help="of the quantized base's products")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=8, help="samples per rank")
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.1, help="dropout of the model and the adapters")
    parser.add_argument("--max-source-length", type=int, default=128)
    parser.add_argument("--max-target-length", type=int, default=8)
    parser.add_argument("--length", type=int, default=512, help="tokens of a sample of a causal model")
    parser.add_argument("--ragged", action="store_true", help="a causal model learns each line as a sample")
    parser.add_argument("--by-block", action="store_true", help="compiled.py: compile each block instead of the model")
    parser.add_argument("--targets", nargs="*", default=["q", "v"], help="layers with adapters")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def read_samples(arguments: argparse.Namespace, tokenizer: T5Tokenizer, count: int) -> list[dict]:
    """The ids of the first `count` samples of the file (repeated if the file is shorter)."""
    rows = [line.rpartition("@") for line in arguments.data.read_text(encoding="utf-8").splitlines() if "@" in line]
    rows = [rows[i % len(rows)] for i in range(count)]

    def ids(texts: list[str], longest: int) -> list[list[int]]:
        return tokenizer(texts, truncation=True, max_length=longest).input_ids

    sources = ids([sentence for sentence, _, _ in rows], arguments.max_source_length)
    labels = ids([label for _, _, label in rows], arguments.max_target_length)
    return [{"source": source, "labels": target} for source, target in zip(sources, labels)]


def read_blocks(arguments: argparse.Namespace, tokenizer: T5Tokenizer, count: int) -> list[dict]:
    """The ids of the first `count` blocks of the file's lines, each with its end of text, one after another."""
    lines = [line for line in arguments.data.read_text(encoding="utf-8").splitlines() if line.strip()]
    ids = [token for line in tokenizer(lines).input_ids for token in line]
    blocks = [ids[i:i + arguments.length] for i in range(0, len(ids) - arguments.length + 1, arguments.length)]
    blocks = [blocks[i % len(blocks)] for i in range(count)]
    return [{"source": block, "labels": []} for block in blocks]


def read_lines(arguments: argparse.Namespace, tokenizer: T5Tokenizer, count: int) -> list[dict]:
    """The ids of the first `count` lines of the file."""
    lines = [line for line in arguments.data.read_text(encoding="utf-8").splitlines() if line.strip()]
    ids = tokenizer([lines[i % len(lines)] for i in range(count)]).input_ids
    return [{"source": line[:arguments.length], "labels": line[:arguments.length]} for line in ids]


def collate_blocks(samples: list[dict]) -> dict[str, torch.Tensor]:
    ids = torch.tensor([sample["source"] for sample in samples])
    return {"input_ids": ids, "labels": ids}


def collator(arguments: argparse.Namespace):
    """Ids padded with 0, labels with -100."""

    def pad(rows: list[list[int]], value: int, longest: int) -> torch.Tensor:
        width = longest if arguments.padding == "max" else max(len(row) for row in rows)
        return torch.tensor([row + [value] * (width - len(row)) for row in rows])

    def collate(samples: list[dict]) -> dict[str, torch.Tensor]:
        sources = [sample["source"] for sample in samples]
        longest = (arguments.length,) * 2 if arguments.ragged else (arguments.max_source_length, arguments.max_target_length)
        return {
            "input_ids": pad(sources, 0, longest[0]),
            "attention_mask": pad([[1] * len(row) for row in sources], 0, longest[0]),
            "labels": pad([sample["labels"] for sample in samples], -100, longest[1]),
        }

    return collate


def build_model(arguments: argparse.Namespace, ranks: int, causal: bool) -> torch.nn.Module:
    if causal:
        dtype = torch.float32 if arguments.device == "cpu" or arguments.full else "auto"
        quantization = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True,
                                          bnb_4bit_compute_dtype=getattr(torch, arguments.compute_dtype)
                                          ) if arguments.quantize else None
        model = AutoModelForCausalLM.from_pretrained(arguments.model, dtype=dtype, device_map=arguments.device,
                                                     quantization_config=quantization)
        if arguments.quantize:
            model = prepare_model_for_kbit_training(model, use_gradient_checkpointing=False)
    else:
        model = T5ForConditionalGeneration.from_pretrained(arguments.model, dtype=torch.float32,
                                                           dropout_rate=arguments.dropout)
    base = model
    if not arguments.full:
        model = get_peft_model(model, LoraConfig(task_type="CAUSAL_LM" if causal else "SEQ_2_SEQ_LM", r=8, lora_alpha=32,
                                                 lora_dropout=arguments.dropout, target_modules=arguments.targets))
        base = model.get_base_model()
    if arguments.strategy == "fsdp2" and ranks > 1:
        # Accelerate 1.15 shards only on accelerators; torch itself can shard on a CPU.
        from torch.distributed.fsdp import fully_shard
        for block in [*base.encoder.block, *base.decoder.block]:
            fully_shard(block)
        fully_shard(model)
    return model.train()


def peak_memory() -> int:
    """Bytes: of tensors on the GPU, or else of this process."""
    if torch.cuda.is_initialized():
        return torch.cuda.max_memory_allocated()
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    arguments = parse_arguments()
    accelerator = Accelerator(cpu=arguments.device == "cpu")
    torch.manual_seed(arguments.seed + accelerator.process_index)
    global_batch = arguments.batch * accelerator.num_processes
    causal = AutoConfig.from_pretrained(arguments.model).model_type != "t5"
    blocks = causal and not arguments.ragged
    read = read_blocks if blocks else read_lines if causal else read_samples
    samples = read(arguments, T5Tokenizer.from_pretrained(arguments.model), arguments.steps * global_batch)

    model = build_model(arguments, accelerator.num_processes, causal)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    fused = {"fused": True} if arguments.padding == "dynamic" else {}
    optimizer = torch.optim.AdamW(trainable, lr=arguments.learning_rate, weight_decay=0.0, **fused)
    # Accelerate's scheduler steps once per process.
    total = arguments.steps * accelerator.num_processes
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, total)
    loader = torch.utils.data.DataLoader(samples, batch_size=arguments.batch,
                                         collate_fn=collate_blocks if blocks else collator(arguments))
    if arguments.strategy == "ddp":
        model = accelerator.prepare(model)
    optimizer, loader, scheduler = accelerator.prepare(optimizer, loader, scheduler)

    arguments.output.mkdir(parents=True, exist_ok=True)
    log = open(arguments.output / "metrics.jsonl", "w") if accelerator.is_main_process else None
    start = time.perf_counter()
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        norm = torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        loss, norm = accelerator.reduce(loss.detach(), "mean").item(), float(norm)
        seconds, start = time.perf_counter() - start, time.perf_counter()
        if log is not None:
            used = samples[step * global_batch : (step + 1) * global_batch]
            tokens = sum(len(sample["source"]) + (0 if causal else len(sample["labels"])) for sample in used)
            record = {"step": step + 1, "loss": loss, "grad_norm": norm, "tokens": tokens, "step_seconds": seconds,
                      "tokens_per_second": tokens / seconds, "memory_bytes": peak_memory()}
            print(json.dumps(record), file=log, flush=True)
    accelerator.end_training()
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
