"""The job that trainer and the peer run, and the command of each."""

import argparse
import dataclasses
import json
import os
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LORA_TARGETS = {"t5": ["q", "v"], "llama": ["q_proj", "v_proj"], "gpt2": ["c_attn"]}  # PEFT's defaults


@dataclasses.dataclass
class Job:
    """The job that both programs run."""
    model: pathlib.Path
    data: pathlib.Path
    steps: int
    batch: int
    ranks: int
    strategy: str      # trainer's: NO, MULTI_CPU or FSDP
    dropout: float = 0.1
    lora: bool = True  # false: full training
    length: int = 512  # tokens of a sample of a causal model
    device: str = "cpu"  # or cuda
    precision: str = "no"  # mixed_precision
    graphs: bool = False  # trainer's training.cuda_graphs
    saved: str = "as_computed"  # trainer's training.saved_activations
    quantized: bool = False  # the frozen base is in nf4, with double quantization
    ragged: bool = False  # a causal model's samples are lines of different lengths instead of blocks

    @property
    def family(self) -> str:
        return json.loads((self.model / "config.json").read_text())["model_type"]

    @property
    def causal(self) -> bool:
        return self.family != "t5"

    @property
    def threads(self) -> int:
        return max(1, len(os.sched_getaffinity(0)) // self.ranks)


def data_of(job: Job) -> dict:
    """trainer's `data`."""
    if job.causal:
        return {"task": "causal_lm", "train": {"path": str(job.data), "format": "text"}, "group_texts": not job.ragged,
                "max_length": job.length, "shuffle": False}
    return {"task": "seq2seq_lm",
            "train": {"path": str(job.data), "format": "delimited", "delimiter": "@", "split_at": "last",
                      "columns": ["sentence", "label"]},
            "source": "sentence", "target": "label", "max_source_length": 128, "max_target_length": 8,
            "shuffle": False}


def trainer_yaml(job: Job, output: pathlib.Path) -> str:
    """JSON, a subset of YAML."""
    config = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": job.strategy,
        "mixed_precision": job.precision,
        "num_machines": 1,
        "num_processes": job.ranks,
        "num_cpu_threads_per_process": job.threads,
        "use_cpu": job.device == "cpu",
        "seed": 1,
        "output_dir": str(output),
        "model": {"path": str(job.model)},
        "data": data_of(job),
        "lora": {"r": 8, "lora_alpha": 32, "lora_dropout": job.dropout, "target_modules": LORA_TARGETS[job.family]},
        "training": {"per_device_train_batch_size": job.batch, "max_steps": job.steps, "learning_rate": 1e-3,
                     "lr_scheduler_type": "linear", "weight_decay": 0.0, "max_grad_norm": 1.0,
                     "optim": "adamw_torch_fused"},
        "checkpoint": {"resume_from_checkpoint": False},
        "logging": {"logging_steps": 1},
    }
    if job.dropout == 0:
        config["training"]["dropout"] = False  # of the model, too
    if not job.lora:
        del config["lora"]
    if job.graphs:
        config["training"]["cuda_graphs"] = True
    if job.saved != "as_computed":
        config["training"]["saved_activations"] = job.saved
    if job.quantized:
        config["model"]["quantization_config"] = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
                                                  "bnb_4bit_use_double_quant": True}
    if job.strategy == "FSDP":
        config["fsdp_config"] = {"fsdp_sharding_strategy": "FULL_SHARD",
                                 "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                                 "fsdp_transformer_layer_cls_to_wrap": "T5Block"}
    return json.dumps(config, indent=2)


def trainer_command(arguments: argparse.Namespace, job: Job, folder: pathlib.Path) -> list[str]:
    (folder / "job.yaml").write_text(trainer_yaml(job, folder / "out"))
    return [str(arguments.trainer), "launch", "--config_file", str(folder / "job.yaml")]


def peer_command(arguments: argparse.Namespace, job: Job, folder: pathlib.Path, options: list[str]) -> list[str]:
    # Accelerate 1.15 starts several ranks on one CPU machine only through its FSDP launcher (MULTI_CPU starts one).
    # The ranks then run DDP, because it shards only on accelerators.
    config = {"compute_environment": "LOCAL_MACHINE", "mixed_precision": job.precision, "num_machines": 1,
              "machine_rank": 0, "main_process_port": 0, "num_processes": job.ranks, "use_cpu": job.device == "cpu",
              "distributed_type": "NO"}
    if job.ranks > 1:
        config.update(distributed_type="FSDP", fsdp_config={"fsdp_version": 2, "fsdp_auto_wrap_policy": "NO_WRAP",
                                                            "fsdp_cpu_ram_efficient_loading": False})
    (folder / "accelerate.json").write_text(json.dumps(config, indent=2))
    return [str(arguments.python.parent / "accelerate"), "launch", "--config_file", str(folder / "accelerate.json"),
            "--num_cpu_threads_per_process", str(job.threads), str(HERE / "peer.py"),
            *peer_options(job, folder), *options]


def peer_options(job: Job, folder: pathlib.Path) -> list[str]:
    return ["--model", str(job.model), "--data", str(job.data), "--output", str(folder / "out"),
            "--steps", str(job.steps), "--batch", str(job.batch), "--dropout", str(job.dropout),
            "--length", str(job.length), "--device", job.device, "--targets", *LORA_TARGETS[job.family],
            *([] if job.lora else ["--full"]), *(["--quantize"] if job.quantized else []),
            *(["--compute_dtype", "bfloat16"] if job.quantized and job.precision == "bf16" else []),
            *(["--ragged"] if job.ragged else [])]


def programs(arguments: argparse.Namespace, job: Job, peers: dict[str, list[str]]) -> dict:
    """Name -> a function that writes a run's files into a folder and returns its command."""
    chosen = {}
    if arguments.only != "trainer":
        for name, options in peers.items():
            chosen[name] = lambda folder, options=options: peer_command(arguments, job, folder, options)
    if arguments.only != "peer":
        chosen["trainer"] = lambda folder: trainer_command(arguments, job, folder)
    return chosen
