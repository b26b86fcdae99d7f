"""Writes beams.json: what transformers' beam search generates with the small models of the other folders.

Each sample is searched alone. `ends` are tokens that the model likes, so that texts end at different lengths.
"""

import itertools
import json
import pathlib

import torch
from golden_t5 import write_json
from transformers import AutoConfig, AutoModelForCausalLM, T5ForConditionalGeneration

GOLDEN = pathlib.Path(__file__).parent
MODELS = {"t5/v1_0": T5ForConditionalGeneration, "t5/v1_1": T5ForConditionalGeneration,
          "gpt2/causal": AutoModelForCausalLM, "llama/llama": AutoModelForCausalLM, "llama/qwen2": AutoModelForCausalLM}
NEW_TOKENS = 8


def sources_of(folder: pathlib.Path) -> list[list[int]]:
    if (folder / "batch.json").exists():
        batch = json.loads((folder / "batch.json").read_text())
    else:
        batch = json.loads((folder / "batches.json").read_text())["batches"][0]
    return [sample["source"] for sample in batch["samples"]][:4]


def search(model: torch.nn.Module, source: list[int], ends: list[int], settings: dict) -> tuple[list[list[int]], list[float]]:
    """The new tokens of every beam's text, without the end, and their scores; the best first."""
    encodes = model.config.is_encoder_decoder
    # No cache for T5: transformers 5.17 sizes the decoder's cache by the encoder's number of layers.
    output = model.generate(input_ids=torch.tensor([source]), attention_mask=torch.ones(1, len(source), dtype=torch.long),
                            do_sample=False, max_new_tokens=NEW_TOKENS, eos_token_id=ends, pad_token_id=0,
                            use_cache=not encodes, num_return_sequences=settings["num_beams"], output_scores=True,
                            return_dict_in_generate=True, **settings)
    texts = []
    for row in output.sequences.tolist():
        row = row[1 if encodes else len(source):]
        texts.append(row[:next((i for i, token in enumerate(row) if token in ends), len(row))])
    return texts, output.sequences_scores.tolist()


def main() -> None:
    cases = []
    for name, family in MODELS.items():
        folder = GOLDEN / name
        model = family.from_pretrained(folder, config=AutoConfig.from_pretrained(folder), dtype=torch.float32).eval()
        model.generation_config.eos_token_id = None
        vocabulary = model.config.vocab_size
        room = getattr(model.config, "n_positions", 64) - NEW_TOKENS
        sources = [source[:room] for source in sources_of(folder)]
        liked = [search(model, source, [vocabulary - 1], {"num_beams": 4})[0][0] for source in sources]
        ends = sorted({texts[i] for texts, i in zip(liked, itertools.cycle([2, 4])) if len(texts) > i})[:3]
        for count, penalty, stop, repetition in [(2, 1.0, False, 1.0), (4, 1.0, False, 1.0), (4, 0.0, True, 1.0),
                                                 (3, 2.0, "never", 1.0), (5, -1.0, False, 1.0), (3, 1.0, True, 1.3)]:
            settings = {"num_beams": count, "length_penalty": penalty, "early_stopping": stop,
                        "repetition_penalty": repetition}
            found = [search(model, source, ends, settings) for source in sources]
            cases.append({"model": name, **settings, "ends": ends, "sources": sources,
                          "texts": [texts for texts, _ in found], "scores": [scores for _, scores in found]})
            print(name, settings, [[len(text) for text in texts] for texts, _ in found])
    write_json(GOLDEN / "beams.json", {"max_new_tokens": NEW_TOKENS, "cases": cases})


if __name__ == "__main__":
    main()
