#!/usr/bin/env bash
# Installs missing packages, builds, and runs the main job: trains a small T5 from scratch under FSDP on two ranks, then
# fine-tunes it with LoRA on other labels. Run again, it continues where it stopped, or shows the results again.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

tools/setup.sh
say "Building (build/release)"
cmake --preset release >/dev/null
cmake --build --preset release
PATH=$PWD/build/release/bin:$PATH

say "Training a tokenizer on the sample sentences"
[ -e runs/quickstart/tokenizer/spiece.model ] ||
  trainer tokenize train --input data/examples/reports.txt data/examples/topics.txt --format delimited \
    --vocab_size 400 --output runs/quickstart/tokenizer

say "Training a small T5 from scratch, sharded over two ranks: do reports say better, same or worse?"
trainer launch --config_file configs/quickstart_full.yaml

say "Fine-tuning the same model with LoRA: what are the sentences about?"
trainer launch --config_file configs/quickstart_lora.yaml

say "Done. Look at runs/quickstart/, or train on your own text: trainer config --config_file my.yaml"
