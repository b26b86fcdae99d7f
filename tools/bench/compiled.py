"""A training loop written by hand around torch.compile, for one device: PEFT's LoRA or all weights of a causal model.

What a careful user of PyTorch writes without Accelerate: the whole model compiled, or with --by-block each of its blocks,
which takes seconds instead of minutes; autocast, fused AdamW, batches made ahead
and copied from pinned memory, and no read of the device that the log doesn't need. Options and metrics.jsonl are those of
peer.py.
"""

import json
import time

import torch
from transformers import T5Tokenizer, get_linear_schedule_with_warmup

import peer


def main() -> None:
    arguments = peer.parse_arguments()
    device = torch.device(arguments.device)
    torch.manual_seed(arguments.seed)
    samples = peer.read_blocks(arguments, T5Tokenizer.from_pretrained(arguments.model), arguments.steps * arguments.batch)
    batches = [peer.collate_blocks(samples[i:i + arguments.batch])["input_ids"]
               for i in range(0, len(samples), arguments.batch)]
    if device.type == "cuda":
        batches = [batch.pin_memory() for batch in batches]

    model = peer.build_model(arguments, 1, causal=True)
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=arguments.learning_rate, weight_decay=0.0, fused=True)
    scheduler = get_linear_schedule_with_warmup(optimizer, 0, arguments.steps)
    if arguments.by_block:
        for name, module in model.named_modules():
            if name.endswith(".layers"):
                for block in module:
                    block.compile()
    compiled = model if arguments.by_block else torch.compile(model)
    half = device.type == "cuda"

    arguments.output.mkdir(parents=True, exist_ok=True)
    with open(arguments.output / "metrics.jsonl", "w") as log:
        start = time.perf_counter()
        for step, batch in enumerate(batches):
            ids = batch.to(device, non_blocking=True)
            with torch.autocast(device.type, torch.bfloat16, enabled=half):
                loss = compiled(input_ids=ids, labels=ids).loss
            loss.backward()
            norm = torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            loss, norm = torch.stack([loss.detach().float(), norm.float()]).tolist()
            seconds, start = time.perf_counter() - start, time.perf_counter()
            record = {"step": step + 1, "loss": loss, "grad_norm": norm, "tokens": ids.numel(), "step_seconds": seconds,
                      "tokens_per_second": ids.numel() / seconds, "memory_bytes": peer.peak_memory()}
            print(json.dumps(record), file=log, flush=True)


if __name__ == "__main__":
    main()
