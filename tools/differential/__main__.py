"""Random jobs, each trained by transformers' Trainer with PEFT and by trainer, and compared.

python tools/differential build/dev/bin/trainer [--first SEED] [--count N] [--keep FOLDER]

The peer trains on one rank, trainer under any strategy. Both get the same model, whose frozen layers may be in 4 bits,
records, TrainingArguments and adapter, without dropout, in fp32 and with samples in order, so that any mistake shows in
numbers. Compared are the loss, gradient norm and learning rate of each update, evaluations, the weights at the end, what
PEFT merges and generates with what trainer wrote, and which tensors an adapter has that is described in YAML. Needs the
packages of tests/golden/requirements.txt, bitsandbytes and pyyaml. on_gpu.py compares a GPU's runs of such jobs with the
CPU's.
"""

import argparse
import collections
import os
import pathlib
import shutil
import tempfile
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS="1")
warnings.filterwarnings("ignore")

import datasets
import torch
import transformers

import compare
import jobs
import ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("trainer", type=pathlib.Path)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--keep", type=pathlib.Path, help="a folder for the files of jobs that differ")
    arguments = parser.parse_args()
    trainer = str(arguments.trainer.resolve())
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    outcomes = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="differential-") as place:
        for seed in range(arguments.first, arguments.first + arguments.count):
            job, folder = jobs.Job(seed), pathlib.Path(place) / str(seed)
            folder.mkdir()
            try:
                found = compare.differences(trainer, job, folder)
                outcome = "differ" if found else "agree"
            except ours.Refused as refusal:
                outcome, found = "refused", [str(refusal).strip()]
            except Exception as error:  # pylint: disable=broad-except  (either program's)
                outcome, found = "failed", [f"{type(error).__name__}: {error}"]
            outcomes[outcome] += 1
            if outcome != "agree":
                print(f"{seed}: {outcome}: {job.family}, {job.task}, {job.arguments}, {job.peft}, {job.strategy}, "
                      f"{job.quantization}, pasted: {job.pasted}\n  " + "\n  ".join(found[:6]), flush=True)
                if arguments.keep:
                    shutil.copytree(folder, arguments.keep / str(seed), dirs_exist_ok=True)
            shutil.rmtree(folder)
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())))


if __name__ == "__main__":
    main()
