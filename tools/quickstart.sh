#!/usr/bin/env bash
# Installs what is missing, builds, and runs the main job: a small T5 trained from scratch under FSDP by two ranks, then
# fine-tuned with LoRA on other labels.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset release
cmake --build --preset release
build/release/bin/trainer launch --config_file configs/quickstart_full.yaml
build/release/bin/trainer launch --config_file configs/quickstart_lora.yaml
