"""The files that the pages of docs/ take to be the reader's: models, data, and what runs left."""

import json
import pathlib
import shutil
import subprocess

from support import JOB, SAMPLES, TINY_T5, TRAINER, merged

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
TEXT = {"task": "causal_lm", "source": "{sentence}", "target": None, "max_source_length": None, "max_target_length": None,
        "max_length": 32}
LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
AXOLOTL = """base_model: models/llama
adapter: lora
lora_r: 4
lora_target_modules: [q_proj, v_proj]
datasets: [{path: questions.jsonl, type: completion, field: prompt}]
micro_batch_size: 1
sequence_len: 16
output_dir: runs/converted
num_epochs: 1
"""


def trainer(folder, environment, *words):
    done = subprocess.run([TRAINER, *map(str, words)], cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (words, done.stdout, done.stderr)


def make(folder, environment):
    """Makes them in `folder`. Models and runs are tiny; runs have the number of steps that the pages speak of."""
    def write(name, changes):
        job = merged(merged(JOB, {"checkpoint": {"save_steps": 100}, "data": {"max_samples": 24}}), changes)
        (folder / name).write_text(json.dumps(job, indent=1))

    def run(name, steps, changes):
        write(f"{name}.yaml", merged({"output_dir": f"runs/{name}", "training": {"max_steps": steps},
                                      "evaluation": {"eval_steps": steps}}, changes))
        trainer(folder, environment, "launch", "--config_file", f"{name}.yaml")

    trainer(folder, environment, "tokenize", "train", "--input", SAMPLES, "--format", "delimited", "--output", "tokenizer",
            "--vocab_size", "280")
    run("scratch", 1, {"model": {"config": TINY_T5}, "tokenizer": {"path": "tokenizer"}})
    (folder / "models").mkdir()
    shutil.move(folder / "runs/scratch", folder / "models/t5")
    shutil.copytree(folder / "models/t5", folder / "models/t5-base")
    for name, source in (("llama", "llama3"), ("qwen", "qwen2"), ("gpt2", "gpt2")):
        shutil.copytree(GOLDEN / "gguf" / source, folder / "models" / name)
    ranks = {"distributed_type": "MULTI_CPU", "num_processes": 1}  # of which a page wants two
    run("t5", 300, {**ranks, "model": {"path": "models/t5"}, "lora": {"r": 4, "target_modules": ["q", "v"]}})
    run("qwen", 300, {"model": {"path": "models/qwen"}, "data": TEXT})
    run("llama", 200, {"model": {"path": "models/llama"}, "data": TEXT})
    run("chat", 2, {"model": {"path": "models/llama"}, "data": TEXT, "lora": LORA})
    for name in ("runs/a", "runs/b", "runs/law", "runs/tax", "adapter", "a", "b", "c"):
        shutil.copytree(folder / ("runs/t5" if name in ("runs/a", "runs/b", "adapter") else "runs/chat"), folder / name, symlinks=True)
    texts = [line.partition("@")[0] for line in SAMPLES.read_text().splitlines()[:3]]
    (folder / "questions.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in texts))
    (folder / "news.csv").write_text("body\n" + "".join(f'"{text}"\n' for text in texts))
    shutil.copy(SAMPLES, folder / "more.txt")
    (folder / "lines.txt").write_text("\n".join(texts) + "\n")
    (folder / "qlora.yml").write_text(AXOLOTL)
    shutil.copy(folder / "models/llama/config.json", folder / "config.json")
    (folder / "fsdp.yaml").write_text("distributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n")
    write("my.yaml", {"output_dir": "runs/my", "model": {"path": "models/t5"}, "training": {"max_steps": 2}})
    write("job.yaml", {"output_dir": "runs/job", "distributed_type": None, "use_cpu": None,
                       "model": {"path": "models/llama"}, "data": TEXT})
