"""Lines 235 to 243 of the catalog: the commands that use what a run left."""

import json
import struct

from case import CONFIGURATION, DONE, INPUT, MACHINE, Case, as_nobody, can_be_nobody

HOSTILE = "<script>alert(1)</script>"


def made(line, what, code, make, *says, **more):
    return Case(line, what, make, code, says, **more)


def called(line, what, code, words, *says, **more):
    """Only arguments, next to a valid job.yaml."""
    def make(place):
        place.job()
        return words
    return Case(line, what, make, code, says, **more)


def safetensors(tensors):
    """Zeros of the given shapes."""
    header, size = {}, 0
    for name, (rows, columns) in tensors.items():
        header[name] = {"dtype": "F32", "shape": [rows, columns], "data_offsets": [size, size + 4 * rows * columns]}
        size += 4 * rows * columns
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


ATTENTIONS = ("encoder.block.0.layer.0.SelfAttention", "decoder.block.0.layer.0.SelfAttention",
              "decoder.block.0.layer.1.EncDecAttention")
LORA = {f"base_model.model.{attention}.q.lora_{part}.weight": shape for attention in ATTENTIONS
        for part, shape in (("A", (2, 16)), ("B", (8, 2)))}


def adapter(place, base, tensors, **changes):
    """A LoRA adapter's folder, or another kind's."""
    config = {"peft_type": "LORA", "task_type": "SEQ_2_SEQ_LM", "base_model_name_or_path": str(base), "r": 2, "lora_alpha": 2,
              "target_modules": ["q"], **changes}
    place.write("adapter/adapter_config.json", json.dumps(config))
    place.write("adapter/adapter_model.safetensors", safetensors(tensors))
    return "adapter"


def prompt_tuning(place):
    return adapter(place, place.base_model(), {"prompt_embeddings": (4, 16)}, peft_type="PROMPT_TUNING",
                   num_virtual_tokens=2, token_dim=16)


def taken(place, *words):
    """Arguments that write to a folder that is not empty."""
    place.write("taken/file", "mine")
    return list(words)


def closed(place):
    """A model folder that others can't read."""
    folder = place.base_model()
    folder.chmod(0o700)
    return folder


def hostile_run(place):
    run = place.run_folder()
    place.write("output/predictions.jsonl", json.dumps({"input": HOSTILE, "prediction": HOSTILE, "label": HOSTILE}) + "\n")
    return ["report", run]


def escaped(place, _):
    page = (place.folder / "output/report.html").read_text()
    return f"the page holds {HOSTILE}" if HOSTILE in page else "" if "&lt;script&gt;alert(1)" in page else "no text"


LINES = [
    called(235, "no folder to evaluate", INPUT, ["eval", "--config_file", "job.yaml"], "output", "does not exist"),
    called(235, "a folder without a model to evaluate", INPUT, ["eval", "--config_file", "job.yaml", "--model", "."],
           "neither a model nor an adapter"),
    made(235, "nothing to evaluate on", CONFIGURATION,
         lambda place: (place.job({"data": {"validation": None}, "evaluation": None}),
                        ["eval", "--config_file", "job.yaml", "--model", place.base_model()])[1], "no validation samples"),
    made(235, "a model to evaluate that can't be read", MACHINE,
         lambda place: (closed(place), place.job(), ["eval", "--config_file", "job.yaml", "--model", "model"])[2], "model",
         before=as_nobody(), needs=can_be_nobody),
    called(236, "no model to generate with", INPUT, ["generate", "none", "--prompt", "x"], "none", "not on this machine"),
    made(236, "a model for an adapter", INPUT,
         lambda place: ["generate", place.base_model(), "--adapter", "model", "--prompt", "x"], "has no adapter_config.json"),
    made(236, "several of the likeliest reply", CONFIGURATION,
         lambda place: ["generate", place.base_model(), "--prompt", "x", "--num_return_sequences", "3"], "--temperature"),
    made(237, "a learned prompt to merge", CONFIGURATION, lambda place: ["merge", prompt_tuning(place), "merged"],
         "inputs of the model", "can be merged"),
    made(237, "a model to merge", INPUT, lambda place: ["merge", place.base_model(), "merged"], "has no adapter_config.json"),
    made(237, "a folder to merge into that is taken", CONFIGURATION,
         lambda place: taken(place, "merge", adapter(place, place.base_model(), LORA), "taken"), "taken"),
    made(238, "a folder to export to that is taken", CONFIGURATION,
         lambda place: taken(place, "export", place.base_model(), "taken"), "taken"),
    made(238, "a model that GGUF has no place for", CONFIGURATION,
         lambda place: ["export", place.base_model(), "x.gguf", "--format", "gguf"], "T5ForConditionalGeneration"),
    called(239, "no run to report", INPUT, ["report", "none"], "is not a run"),
    made(239, "a script in a prediction", DONE, hostile_run, check=escaped,
         although="predictions are data: the page shows them as text"),
    called(240, "no run to replay", INPUT, ["replay", "none", "--steps", "1:2"], "is not a run"),
    made(240, "steps that a run doesn't have", CONFIGURATION,
         lambda place: ["replay", place.run_folder(), "--steps", "5:2"], "5:2"),
    called(241, "an unknown shell", CONFIGURATION, ["completion", "tcsh"], "tcsh", "fish"),
    called(242, "no option to explain", CONFIGURATION, ["explain", "learning_rat"], "learning_rat", "learning_rate"),
    called(243, "no data to profile with", INPUT, ["profile", "job.yaml", "--data", "none.txt"], "none.txt"),
]
