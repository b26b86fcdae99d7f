#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: a small T5 trained from scratch under FSDP by two ranks, then
# fine-tuned with LoRA on other labels. Run again, it goes on where it stopped, or shows the results once more.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\n== %s\n' "$*"; }

tools/setup.sh
say "Building (build/release)"
cmake --preset release >/dev/null
cmake --build --preset release
PATH=$PWD/build/release/bin:$PATH

say "A tokenizer from the sample sentences"
[ -e runs/quickstart/tokenizer/spiece.model ] ||
  trainer tokenize train --input data/samples/reports.txt data/samples/topics.txt --format delimited \
    --vocab_size 400 --output runs/quickstart/tokenizer

say "A small T5 from scratch, sharded over two ranks: do reports speak of better, same or worse?"
trainer launch --config_file configs/quickstart_full.yaml

say "The same model with LoRA adapters: what are the sentences about?"
trainer launch --config_file configs/quickstart_lora.yaml

say "Done. Look at runs/quickstart/, or train on your own text: trainer config --config_file my.yaml"
