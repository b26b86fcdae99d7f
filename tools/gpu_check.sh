#!/usr/bin/env bash
# Runs all checks that need a machine with an NVIDIA GPU, within ten minutes after the build:
#   tools/gpu_check.sh [BUILD_FOLDER [PYTHON]]      (default: build/cuda, built with TRAINER_CUDA=ON if it is missing)
# PYTHON has the packages of tests/golden/requirements.txt; without it, there is no benchmark.
# - the GPUs that trainer finds, against nvidia-smi: count, names, driver, CUDA_VISIBLE_DEVICES by number and by UUID
# - gpu_test: every tiny model on the GPU against the CPU's numbers, ranks sharing a GPU, memory
# - runs of `trainer launch` on the GPU against the same ones on the CPU: LoRA, 4 bits, fp16, windows, offload, graphs
# - the equivalence matrix on one rank over NCCL, on two over Gloo that share the GPU, and, with several GPUs, over NCCL on
#   two or four, with all meshes of these
# - with several GPUs, runs of `trainer launch` over NCCL: DDP and FSDP with the same losses, and a rank that dies
# - a run of `trainer launch` that resumes from its checkpoint
# - a run with training.cuda_graphs, against the same one without
# - tools/bench/gpu.py: LoRA of 8 (on smaller GPUs: 1) billion weights beside Accelerate with flash attention, and beside a
#   loop around torch.compile
# Whatever ten minutes don't suffice for ends at their end, and fails: GPU_CHECK_SECONDS sets another time.
# GPU_CHECK_CASES, of `trainer selftest --only`, checks fewer cases (tests/tools/gpu_check_test.py, without a GPU).
# The last lines report whether all checks passed, and which could not be made here.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build/cuda}
python=${2:-}
cases=(${GPU_CHECK_CASES:+--only "$GPU_CHECK_CASES"})

step() { printf '\n== %s (%d s)\n' "$*" $SECONDS; }
within() { # SECONDS COMMAND…: ends it after these seconds, or at the end of the time for all checks
  local left=$((${GPU_CHECK_SECONDS:-600} - SECONDS)) code=0
  ((left > 0)) || { echo "The time for all checks is over; not run: ${*:2}" >&2; exit 1; }
  timeout $(($1 < left ? $1 : left)) "${@:2}" || code=$?
  ((code != 124)) || echo "Ended after $(($1 < left ? $1 : left)) s, by the limit of this check or of all of them: ${*:2}" >&2
  return $code
}

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
SECONDS=0 # the build doesn't count
trainer=$(realpath "$build/bin/trainer")

step "finding the GPUs"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
"$trainer" tokenize train --input data/examples/reports.txt --format delimited --vocab_size 400 --output "$out/tokenizer"
plan() { # prints the device line of `trainer check`; arguments: further flags
  within 30 "$trainer" check --json --config_file configs/quickstart_full.yaml --set use_cpu=false --set distributed_type=NO \
    --num_processes 1 --set tokenizer.path="$out/tokenizer" "$@" |
    python3 -c 'import json, sys; report = json.load(sys.stdin); print(*report["devices"], *report["missing"], sep="\n")'
}
expect() { # TEXT LINES
  grep -qF -- "$1" <<<"$2" || { printf 'expected "%s" in:\n%s\n' "$1" "$2" >&2; exit 1; }
}
query() { nvidia-smi --id="$1" --query-gpu="$2" --format=csv,noheader | head -1; }
last=$((gpus - 1))
expect "training on GPU 0 ($(query 0 name)" "$(plan)"
expect "driver $(query 0 driver_version)" "$(plan)"
expect "training on GPU $last ($(query "$last" name)" "$(CUDA_VISIBLE_DEVICES=$last plan)"
uuid=$(query "$last" uuid)
expect "training on GPU $last ($(query "$last" name)" "$(CUDA_VISIBLE_DEVICES=${uuid:0:16} plan)"
expect "CUDA_VISIBLE_DEVICES is '99', which selects none of this machine's" "$(CUDA_VISIBLE_DEVICES=99 plan)"
plan --set enable_cpu_affinity=true --set training.tf32=true

step "gpu_test"
OMP_NUM_THREADS=1 within 240 "$build/bin/gpu_test"

step "runs on the GPU and on the CPU"
(cd tests/end_to_end && TRAINER_BIN=$trainer within 200 python3 -m unittest gpu_launch_test)

step "one rank over NCCL"
within 200 "$trainer" selftest --device cuda --backend nccl --num_processes 1 "${cases[@]}"

step "two ranks over Gloo, tensors on the GPU"
within 200 "$trainer" selftest --device cuda --backend gloo --num_processes 2 "${cases[@]}"

launch() { # RANKS TYPE NAME FLAGS…
  within 120 "$trainer" launch --config_file configs/quickstart_full.yaml --set use_cpu=false --num_processes "$1" \
    --set distributed_type="$2" --set tokenizer.path="$out/tokenizer" --set output_dir="$out/$3" "${@:4}"
}
same_losses() { # NAME NAME DIFFERENCE
  python3 - "$out/$1/metrics.jsonl" "$out/$2/metrics.jsonl" "$3" <<'COMPARE'
import json, sys
losses = [[line["loss"] for line in map(json.loads, open(name)) if "loss" in line] for name in sys.argv[1:3]]
worst = max(abs(a - b) / a for a, b in zip(*losses, strict=True))
print(f"the losses of {len(losses[0])} updates differ by at most {worst:.1e}")
sys.exit(worst > float(sys.argv[3]))
COMPARE
}

left_out=()
if [ "$gpus" -ge 2 ]; then
  ranks=$((gpus < 4 ? 2 : 4))
  step "$ranks ranks over NCCL, one GPU each"
  within 200 "$trainer" selftest --device cuda --backend nccl --num_processes $ranks "${cases[@]}"

  step "trainer launch on $ranks GPUs"
  few=(--set training.max_steps=10 --set logging.logging_steps=1)
  launch $ranks MULTI_GPU ddp "${few[@]}"
  launch $ranks FSDP fsdp "${few[@]}"
  same_losses ddp fsdp 1e-4

  step "a rank that dies"
  code=0
  TRAINER_INJECT=kill:rank=1,step=3 launch $ranks FSDP dead "${few[@]}" 2>&1 | tee "$out/dead.log" || code=$?
  [ $code = 137 ] || { echo "expected exit code 137, not $code" >&2; exit 1; }
  expect "rank 1" "$(cat "$out/dead.log")"
else
  left_out+=("several GPUs: this machine has one")
fi

step "trainer launch"
launch 1 NO run --set checkpoint.save_steps=5 --set training.max_steps=5
launch 1 NO run --set checkpoint.save_steps=5 --set training.max_steps=10
expect "($(query 0 name), " "$(cat "$out/run/logs/rank-0.log")"
grep -q '"step": *10' "$out/run/metrics.jsonl"

step "CUDA graphs"
cat >"$out/graphs.yaml" <<JOB
distributed_type: NO
use_cpu: false
num_processes: 1
mixed_precision: bf16
model: {config: {model_type: gpt2, vocab_size: 400, n_embd: 128, n_layer: 4, n_head: 4, n_positions: 64, attn_pdrop: 0.0}}
tokenizer: {path: $out/tokenizer}
data:
  task: causal_lm
  train: {path: $PWD/data/examples/reports.txt, format: delimited, columns: [sentence, label]}
  source: "{sentence}"
  max_length: 64
  group_texts: true
training: {per_device_train_batch_size: 4, gradient_accumulation_steps: 2, max_steps: 20}
logging: {logging_steps: 1}
JOB
for graphs in false true; do
  within 120 "$trainer" launch --config_file "$out/graphs.yaml" --set training.cuda_graphs=$graphs \
    --set output_dir="$out/graphs_$graphs" 2>&1 | tee "$out/graphs_$graphs.log"
done
expect "are replayed from now on" "$(cat "$out/graphs_true.log")"
same_losses graphs_false graphs_true 1e-3

step "benchmark"
if [ -n "$python" ]; then
  shape=llama-1b
  [ "$(query 0 memory.total | grep -o '^[0-9]*')" -lt 70000 ] || shape=llama-8b
  within 600 python3 tools/bench/gpu.py --python "$python" --trainer "$trainer" --shape "$shape" --rounds 1
else
  left_out+=("the benchmark: no PYTHON was given")
fi

step "all checks passed"
for what in "${left_out[@]}"; do echo "not checked: $what"; done
