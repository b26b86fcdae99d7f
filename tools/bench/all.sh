#!/usr/bin/env bash
# Measures every workload beside its peer and writes docs/performance.md: tools/bench/all.sh PEER_PYTHON [RESULTS]
# RESULTS (default: docs/performance.jsonl) has a line for each workload and machine; those of this machine are measured
# again. With CONTINUE=1, those that were measured today are not.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=${1:?usage: tools/bench/all.sh PEER_PYTHON [RESULTS]}
results=$(realpath -m "${2:-docs/performance.jsonl}")

has() { [[ ${CONTINUE:-} ]] && python3 tools/bench/measurements.py "$results" "$*"; }

run() {
  if has bench.py "$@"; then return; fi
  python3 tools/bench/bench.py "$@" --python "$python" --json "$results" --note "bench.py $*"
}

run start
run lora
run lora --ranks 2
run lora --shape t5-base --batch 4
run fsdp
run lora --full --ranks 2 --strategy MULTI_CPU
run causal
run causal --full
run causal --shape gpt2-small
run causal --shape gpt2-small --full
run causal --weights bfloat16
run causal --saved int8
run causal --full --saved int8
run causal --precision bf16
run causal --precision bf16 --shape gpt2-small
if "$python" -c "import bitsandbytes" 2>/dev/null; then
  run causal --quantize
  run causal --quantize --precision bf16
fi
for job in "--shape t5-small" "--shape llama-100m" "--shape llama-100m --weights bfloat16" \
           "--shape llama-100m --ragged"; do
  if ! has generation.py "$job"; then
    # shellcheck disable=SC2086  # words
    "$python" tools/bench/generation.py $job --json "$results"
  fi
done
if ! has scaling.py; then
  python3 tools/bench/scaling.py --python "$python" --plot docs/scaling.svg --json "$results"
fi
python3 tools/bench/report.py "$results" docs/performance.md
