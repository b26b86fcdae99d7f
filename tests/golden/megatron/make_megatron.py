"""Writes corpora, and the indices, samples and blends that megatron-core's own classes make of them.

Run in an environment with torch, numpy and megatron-core==0.16.1 (its wheel contains the compiled helpers).
"""

import json
import logging
import pathlib
import shutil
import tempfile
import warnings

warnings.filterwarnings("ignore")

import numpy
import torch
from megatron.core.datasets import helpers
from megatron.core.datasets.blended_dataset import BlendedDataset
from megatron.core.datasets.blended_megatron_dataset_builder import BlendedMegatronDatasetBuilder
from megatron.core.datasets.blended_megatron_dataset_config import (
    convert_split_vector_to_split_matrix,
    parse_and_normalize_split,
)
from megatron.core.datasets.gpt_dataset import GPTDataset, GPTDatasetConfig
from megatron.core.datasets.indexed_dataset import DType, IndexedDataset, IndexedDatasetBuilder
from megatron.core.datasets.utils import Split, get_blend_from_list, normalize

HERE = pathlib.Path(__file__).parent
EOD = 5
PAD = 3
SPLITS = ["train", "valid", "test"]


class Tokenizer:
    """The attributes that Megatron requires of a tokenizer."""

    vocab_size, eod, eos, pad = 1000, EOD, EOD, PAD
    unique_identifiers = {"class": "Tokenizer"}


def write_corpus(name, documents, longest, dtype, seed, low=0, high=1000, sequences=1):
    """Documents of random tokens with `sequences` sequences each; each ends with EOD, and some sequences are empty."""
    random = numpy.random.RandomState(seed)
    builder = IndexedDatasetBuilder(str(HERE / f"{name}.bin"), dtype=dtype)
    for document in range(documents):
        lengths = [int(random.randint(1, longest + 1)) for _ in range(sequences)]
        if document % 11 == 7:
            lengths[0] = 0
        tokens = random.randint(low, high, size=sum(lengths))
        if len(tokens):
            tokens[-1] = EOD
        builder.add_document(torch.from_numpy(tokens), lengths)
    builder.finalize(str(HERE / f"{name}.idx"))


def type_case(name):
    dataset = IndexedDataset(str(HERE / f"type_{name}"))
    return {"name": name, "code": DType[name].value, "sequences": [dataset[i].tolist() for i in range(len(dataset))]}


def config(**settings):
    defaults = dict(
        random_seed=1234,
        sequence_length=16,
        split="1,0,0",
        tokenizer=Tokenizer(),
        reset_position_ids=False,
        reset_attention_mask=False,
        eod_mask_loss=False,
        path_to_cache=None,
    )
    return GPTDatasetConfig(**{**defaults, **settings})


def build(words, sizes, **settings):
    """The three splits of a blend. The cache is a temporary folder, so that no files are left next to the corpora."""
    prefixes, weights = get_blend_from_list(words)
    cache = tempfile.mkdtemp()
    prefixes = [str(HERE / prefix) for prefix in prefixes]
    if len(prefixes) > 1 or weights is not None:
        torch.distributed.get_rank = lambda: 0  # BlendedDataset calls it without checking that there are ranks
    made = BlendedMegatronDatasetBuilder(
        GPTDataset, sizes, lambda: True, config(blend=(prefixes, weights), path_to_cache=cache, **settings)
    ).build()
    shutil.rmtree(cache)
    return made


def describe_sample(sample):
    """One sample. `starts`: tokens that attend to nothing before them; `learnt`: tokens that count in the loss."""
    visible = ~sample["attention_mask"][0].numpy()
    return {
        "tokens": sample["tokens"].tolist(),
        "labels": sample["labels"].tolist(),
        "learnt": [int(x) for x in sample["loss_mask"].tolist()],
        "positions": sample["position_ids"].tolist(),
        "starts": [i for i in range(len(visible)) if not visible[i, :i].any()],
    }


def index_case(name, path, part, samples, shown=2, **settings):
    which = SPLITS.index(part)
    # Builds only one split: building an empty split of a small corpus would never finish.
    matrix = convert_split_vector_to_split_matrix(parse_and_normalize_split(settings.get("split", "1,0,0")))
    cfg = config(blend=([str(HERE / path)], None), **settings)
    low = GPTDataset.build_low_level_dataset(str(HERE / path), cfg)
    count = GPTDataset.numel_low_level_dataset(low)
    begin, end = (int(round(edge * float(count))) for edge in matrix[which])
    cfg.path_to_cache = tempfile.mkdtemp()
    dataset = GPTDataset(
        low, path, numpy.arange(begin, end, dtype=numpy.int32), samples, Split[part], cfg
    )
    shutil.rmtree(cfg.path_to_cache)
    return {
        "name": name,
        "path": path,
        "settings": settings,
        "part": part,
        "samples": samples,
        "range": [begin, end],
        "document_index": dataset.document_index.tolist(),
        "sample_index": dataset.sample_index.tolist(),
        "shuffle_index": dataset.shuffle_index.tolist(),
        "shown": [describe_sample(dataset[k]) for k in range(min(shown, len(dataset)))],
        "last": describe_sample(dataset[int(numpy.argmax(dataset.shuffle_index))]),
    }


def index_cases():
    yield index_case("one epoch", "a", "train", None)
    yield index_case("training split", "a", "train", 5, split="969,30,1", sequence_length=13)
    yield index_case("validation split", "a", "valid", 4, split="70,30", random_seed=7)
    yield index_case("final epoch on its own", "a", "train", 140, random_seed=42)
    yield index_case("final epoch with the rest", "a", "train", 195, random_seed=42)
    yield index_case("longer than the corpus", "b", "train", 3, sequence_length=700)
    yield index_case("a half rounds to even", "b", "test", 9, split="0.5, .25,1.25", sequence_length=9)
    yield index_case(
        "validation tail is padded", "a", "valid", None, split="8,2,0", sequence_length=17,
        drop_last_partial_validation_sequence=False,
    )
    yield index_case("documents apart", "a", "train", None, reset_attention_mask=True, reset_position_ids=True,
                     eod_mask_loss=True, sequence_length=40)
    yield index_case("no loss after a document", "c", "train", 20, eod_mask_loss=True, random_seed=4294967295)


def blend_case(name, words, size, **settings):
    sizes = [None] * 3 if size is None else [size, 0, 0]
    made = build(words, sizes, **settings)[0]
    result = {"name": name, "words": words, "size": size, "settings": settings}
    if isinstance(made, BlendedDataset):
        result["dataset"] = made.dataset_index.tolist()
        result["sample"] = made.dataset_sample_index.tolist()
    result["length"] = len(made)
    result["shown"] = [describe_sample(made[k]) for k in [0, len(made) - 1]]
    return result


def blend_cases():
    yield blend_case("weights", ["3", "a", "1.5", "b", ".5", "c"], 100)
    yield blend_case("one corpus with a weight", ["1", "a"], 60)
    yield blend_case("by size", ["a", "b", "c"], 50)
    yield blend_case("all of each", ["a", "b", "c"], None)
    yield blend_case("all of two", ["b", "c"], None, sequence_length=5)
    yield blend_case("one corpus", ["a"], 70)


def pick_case(seed, datasets, size):
    """Only the helpers, with many weights, so that the order of summation matters."""
    random = numpy.random.RandomState(seed)
    weights = [float(x) for x in random.lognormal(size=datasets)]
    normalised = normalize(weights)
    dataset, sample = numpy.zeros(size, numpy.int16), numpy.zeros(size, numpy.int64)
    helpers.build_blending_indices(dataset, sample, normalised, datasets, size, False)
    sizes = random.randint(1, 9, size=datasets)
    total = int(sizes.sum())
    all_dataset, all_sample = numpy.zeros(total, numpy.int16), numpy.zeros(total, numpy.int64)
    helpers.build_exhaustive_blending_indices(all_dataset, all_sample, sizes, datasets)
    return {
        "weights": weights,
        "normalised": normalised,
        "dataset": dataset.tolist(),
        "sizes": sizes.tolist(),
        "all_dataset": all_dataset.tolist(),
    }


def shuffle_case(seed, size):
    random = numpy.random.RandomState(seed)
    first = numpy.arange(size, dtype=numpy.uint32)
    random.shuffle(first)
    second = numpy.arange(7, dtype=numpy.int64)
    random.shuffle(second)
    return {"seed": seed, "first": first.tolist(), "second": second.tolist()}


def write(name, value):
    lines = ",\n".join(json.dumps(item, separators=(",", ":")) for item in value)
    (HERE / f"{name}.json").write_text(f"[\n{lines}\n]\n")


def main():
    logging.disable(logging.CRITICAL)
    write_corpus("a", 40, 60, DType.optimal_dtype(1000), seed=1)
    write_corpus("b", 18, 40, DType.optimal_dtype(70000), seed=2)
    write_corpus("c", 12, 30, numpy.uint8, seed=3, high=250, sequences=2)
    for code in DType:
        write_corpus(f"type_{code.name}", 2, 4, getattr(numpy, code.name), seed=code.value, high=100)
    write("types", [type_case(code.name) for code in DType])
    write("indices", index_cases())
    write("blends", blend_cases())
    write("picks", [pick_case(1, 3, 90), pick_case(2, 8, 60), pick_case(3, 21, 120), pick_case(4, 200, 40)])
    write("shuffles", [shuffle_case(0, 1), shuffle_case(1234, 40), shuffle_case(4294967295, 33)])
    splits = ["99,1,0", "969, 30, 1", "1", ".5/.25/.25", "0,0,1", "98,2", "1,1,1", "3,0,7"]
    counts = [0, 1, 2, 5, 10, 25, 50, 100, 333, 1000000007]
    write(
        "splits",
        [
            {
                "split": text,
                "counts": counts,
                "ranges": [
                    None if part is None else [[int(round(edge * float(n))) for edge in part] for n in counts]
                    for part in convert_split_vector_to_split_matrix(parse_and_normalize_split(text))
                ],
            }
            for text in splits
        ],
    )


if __name__ == "__main__":
    main()
