"""Lines 244 to 247 of the catalog: training on preferences."""

import json

from case import CONFIGURATION, INPUT, Case
from data_lines import CHAT

TURNS = [{"role": "user", "content": "hi"}]
GOOD = {"chosen": TURNS + [{"role": "assistant", "content": "yes"}],
        "rejected": TURNS + [{"role": "assistant", "content": "no"}]}
TEXTS = {"prompt": "hi", "chosen": " yes", "rejected": " no"}


def preferences(line, what, records, *says, changes=(), code=INPUT, options=(), dialogue="messages", **more):
    def make(place):
        place.write("pairs.jsonl", "".join(json.dumps(record) + "\n" for record in records))
        config = place.job({"data": {"train": None, "validation": None, "max_samples": None}, "evaluation": None}, CHAT,
                           {"data": {"train": {"path": str(place.folder / "pairs.jsonl")}, "dialogue": dialogue},
                            "dpo": {"beta": 0.1}}, *changes)
        return ["launch", "--config_file", config, *options]
    return Case(line, what, make, code, says, **more)


def configuration(line, what, *says, **more):
    return preferences(line, what, [GOOD] * 4, *says, code=CONFIGURATION, **more)


def record(what, bad, *says, good=GOOD, **more):
    return preferences(246, what, [good, bad], "pairs.jsonl:2", *says, **more)


def reply(text, role="assistant"):
    return TURNS + [{"role": role, "content": text}]


LINES = [
    configuration(244, "preferences for a T5", "data.task", "seq2seq_lm", "causal_lm",
                  changes=[{"data": {"task": "seq2seq_lm", "dialogue": None, "chat_template": None}}]),
    configuration(244, "a pipeline of pairs", "pp_size", "both of its replies in one stage",
                  changes=[{"distributed_type": "MULTI_CPU", "num_processes": 2,
                            "parallelism_config": {"parallelism_config_pp_size": 2}}]),
    configuration(244, "pairs that ranks cut apart", "cp_size", "on one rank",
                  changes=[{"distributed_type": "MULTI_CPU", "num_processes": 2,
                            "parallelism_config": {"parallelism_config_cp_size": 2}}]),
    configuration(244, "a learned prompt as the reference", "PROMPT_TUNING", "untrained",
                  changes=[{"lora": {"peft_type": "PROMPT_TUNING", "num_virtual_tokens": 4}}]),
    configuration(244, "texts to generate from pairs", "evaluation.generate", "trainer generate",
                  changes=[{"data": {"validation": {"fraction": 0.5}}, "evaluation": {"generate": True}}]),
    configuration(244, "a metric of texts for pairs", "evaluation.metrics", "bleu",
                  changes=[{"data": {"validation": {"fraction": 0.5}}, "evaluation": {"metrics": ["bleu"]}}]),
    configuration(244, "joined pairs", "data.group_texts",
                  changes=[{"data": {"group_texts": True, "dialogue": None, "chat_template": None}}]),
    configuration(245, "a loss that isn't here", "dpo.loss_type", "orpo", changes=[{"dpo": {"loss_type": "orpo"}}]),
    configuration(245, "a beta of 0", "dpo.beta", "above 0", changes=[{"dpo": {"beta": 0}}]),
    configuration(245, "half of the preferences are wrong", "dpo.label_smoothing", "0.5",
                  changes=[{"dpo": {"label_smoothing": 0.5}}]),
    configuration(245, "smoothed tokens of pairs", "label_smoothing_factor", "dpo.label_smoothing",
                  changes=[{"training": {"label_smoothing_factor": 0.1}}]),
    configuration(245, "the same reply twice", "data.rejected", "data.target", changes=[{"data": {"rejected": "chosen"}}]),
    configuration(245, "a rejected reply without preferences", "data.rejected", "dpo",
                  changes=[{"dpo": None, "data": {"rejected": "rejected"}}]),
    configuration(245, "a length among the keys of TRL", "dpo.max_length", "data.max_length",
                  changes=[{"dpo": {"max_length": 512}}]),
    record("a pair without a rejected reply", {"chosen": GOOD["chosen"]}, "rejected"),
    record("replies without a prompt", {"chosen": reply("yes")[1:], "rejected": reply("no")[1:]}, "no prompt"),
    record("an empty reply", {"chosen": reply("yes"), "rejected": reply(" ")}, "`rejected` is empty"),
    record("a reply of the user", {"chosen": reply("yes"), "rejected": reply("no", "user")}, "`rejected`", "user"),
    record("no reply after the prompt", {"chosen": reply("yes"), "rejected": TURNS}, "`rejected` has no reply"),
    record("a text among dialogues", {"chosen": "yes", "rejected": reply("no")}, "`chosen` is not a list of turns"),
    record("dialogues that are read as texts", GOOD, "data.dialogue to messages", dialogue="none", good=TEXTS,
           changes=[{"data": {"chat_template": None}}]),
    record("an empty text", {**TEXTS, "rejected": ""}, "data.rejected", "empty", dialogue="none", good=TEXTS,
           changes=[{"data": {"chat_template": None}}]),
    preferences(247, "pairs of equal replies only", [{"chosen": GOOD["chosen"], "rejected": GOOD["chosen"]}] * 3,
                "none is left to train on", "3 pairs were dropped"),
]
