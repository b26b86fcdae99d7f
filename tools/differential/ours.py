"""Runs a job with trainer, as a user would: files, and commands."""

import json
import subprocess

import yaml
from safetensors.torch import load_file


class Refused(Exception):
    pass


def run(trainer, folder, *words):
    done = subprocess.run([trainer, *words], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 2:
        raise Refused(done.stdout + done.stderr)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode} of {' '.join(words)}\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout


def write_records(path, records):
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))


def configuration(job):
    data = {"task": job.task, "source": "text", "train": {"path": "train.jsonl"}, "cache_dir": "cache"}
    if job.task == "seq2seq_lm":
        data |= {"max_source_length": job.max_length, "max_target_length": job.max_target_length}
    else:
        data["max_length"] = job.max_length
    if job.task != "causal_lm":
        data["target"] = "label"
    if job.task == "sequence_classification":
        data["labels"] = [str(i) for i in range(job.config.num_labels)]
    if "eval_strategy" in job.arguments:
        data["validation"] = {"path": "held_out.jsonl"}
    training = dict(job.arguments)
    if "num_processes" in job.strategy:  # the same samples in each update
        training["global_batch_size"] = training["per_device_train_batch_size"] * training.pop("gradient_accumulation_steps")
    model = {"path": "model"} | ({"quantization_config": job.quantization} if job.quantization else {})
    whole = job.strategy | {"use_cpu": True, "output_dir": "out", "model": model, "data": data, "training": training,
             "checkpoint": {"save_steps": 0}, "logging": {"logging_steps": 1}}
    return whole | ({"lora": job.peft if job.pasted else {"path": "adapter"}} if job.peft else {})


def train(trainer, job, folder):
    """As peer.train()."""
    write_records(folder / "train.jsonl", job.train)
    write_records(folder / "held_out.jsonl", job.held_out)
    (folder / "job.yaml").write_text(yaml.safe_dump(configuration(job), sort_keys=False, allow_unicode=True))
    run(trainer, folder, "launch", "--config_file", "job.yaml")
    lines = [json.loads(line) for line in (folder / "out/metrics.jsonl").read_text().splitlines()]
    tensors = {}
    for file in (folder / "out").glob("*.safetensors"):
        tensors |= load_file(file)
    return [line for line in lines if "event" not in line], tensors


def merged(trainer, folder):
    run(trainer, folder, "merge", "out", "merged")
    return load_file(folder / "merged/model.safetensors")


def generated(trainer, folder, options):
    """The replies to all held-out records, one after the other."""
    flags = [word for name, value in options.items() for word in (f"--{name}", str(value).lower())]
    out = run(trainer, folder, "generate", "out", "--data", "held_out.jsonl", "--source", "{text}", "--cpu", *flags)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]
