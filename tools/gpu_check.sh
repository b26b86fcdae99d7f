#!/usr/bin/env bash
# Runs all checks that need a machine with an NVIDIA GPU, within ten minutes after the build:
#   tools/gpu_check.sh [BUILD_FOLDER]      (default: build/cuda, built with TRAINER_CUDA=ON if it is missing)
# - gpu_test: every tiny model on the GPU against the CPU's numbers, ranks sharing a GPU, memory, NCCL's collectives
# - the equivalence matrix on one rank over NCCL, on two over Gloo that share the GPU, and, with several GPUs, on two
#   over NCCL
# - a run of `trainer launch` that resumes from its checkpoint
# The last line reports whether all checks passed.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/cuda}

step() { printf '\n== %s\n' "$*"; }

step "machine"
nvidia-smi --query-gpu=index,name,driver_version,memory.total --format=csv || {
  echo "nvidia-smi found no GPU, so there is nothing to check on this machine." >&2
  exit 1
}
gpus=$(nvidia-smi --list-gpus | wc -l)

if [ ! -e "$build/bin/libtrainer_cuda.so" ]; then
  step "build (TRAINER_CUDA=ON)"
  tools/setup.sh --cuda
  cmake -S . -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG" -DTRAINER_CUDA=ON
  cmake --build "$build" --target trainer trainer-worker trainer-prepare trainer_cuda gpu_test
fi
trainer=$build/bin/trainer

step "gpu_test"
timeout 240 "$build/bin/gpu_test"

step "one rank over NCCL"
timeout 200 "$trainer" selftest --device cuda --backend nccl --num_processes 1

step "two ranks over Gloo, tensors on the GPU"
timeout 200 "$trainer" selftest --device cuda --backend gloo --num_processes 2

if [ "$gpus" -ge 2 ]; then
  step "two ranks over NCCL, one GPU each"
  timeout 200 "$trainer" selftest --device cuda --backend nccl --num_processes 2
fi

step "trainer launch"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$trainer" tokenize train --input data/examples/reports.txt --format delimited --vocab_size 400 --output "$out/tokenizer"
launch() { # STEPS
  timeout 120 "$trainer" launch --config_file configs/quickstart_full.yaml --set use_cpu=false --set distributed_type=NO \
    --num_processes 1 --set tokenizer.path="$out/tokenizer" --set output_dir="$out/run" --set training.max_steps="$1" \
    --set checkpoint.save_steps=5
}
launch 5
launch 10
grep -q '"step": *10' "$out/run/metrics.jsonl"

step "all checks passed"
