#!/usr/bin/env bash
# fuzz.sh [SECONDS [KIND…]]: runs all fuzzers in tests/fuzz, or the named ones (json, index, …), for SECONDS each (60),
# under the address and undefined-behavior sanitizers. Inputs that crash or hang are left in build/fuzz/findings, and the
# exit status is 1; once fixed, they belong in tests/fuzz/corpus, which every test run replays. Interesting inputs stay
# in build/fuzz/corpus. model_config and adapter_config run only when named, because they compile for many minutes.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { printf 'error: %s\n' "$@" >&2; exit 1; }

seconds=${1:-60}
[[ $seconds =~ ^[0-9]+$ ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
kinds=("${@:2}")
[[ $# -gt 1 ]] || kinds=(yaml json config http idx indexed_file records tokenizer sentencepiece template safetensors index manifest)
for kind in "${kinds[@]}"; do
  [[ -f tests/fuzz/${kind}_fuzzer.cpp ]] ||
    fail "There is no fuzzer '$kind'. The fuzzers are: $(cd tests/fuzz && ls ./*_fuzzer.cpp | sed 's,./\(.*\)_fuzzer.cpp,\1,' | xargs)"
done
folder=build/fuzz

command -v clang++ >/dev/null || fail "The fuzzers need clang with libFuzzer, which a normal build does not: apt-get install clang"
mkdir -p $folder
if ! cmake -S . -B $folder -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Debug \
  -DCMAKE_CXX_FLAGS_DEBUG="-O1 -g1 -DNDEBUG" -DCMAKE_CXX_FLAGS="-fsanitize=fuzzer-no-link,address,undefined \
  -fno-sanitize-recover=undefined -fno-omit-frame-pointer" >$folder/configure.log 2>&1; then
  cat $folder/configure.log >&2
  fail "cmake could not configure $folder: see above. If libclang_rt is missing: apt-get install 'libclang-rt-*-dev' for" \
    "clang's version. If libtorch is missing: tools/setup.sh"
fi
cmake --build $folder --target "${kinds[@]/%/_fuzzer}"

# libFuzzer's dictionaries are quoted strings, one per line. The option tables quote their names in the same way.
names=$(grep --no-filename --only-matching --extended-regexp '"[A-Za-z0-9_]{2,40}"' -r engine/config/tables \
  engine/config/names.h | sort -u)

status=0
for kind in "${kinds[@]}"; do
  mkdir -p $folder/corpus/$kind $folder/findings
  { [[ ! -f tests/fuzz/$kind.dict ]] || cat tests/fuzz/$kind.dict; echo "$names"; } >$folder/$kind.dict
  if UBSAN_OPTIONS=print_stacktrace=1 $folder/bin/${kind}_fuzzer -max_total_time="$seconds" -timeout=30 \
    -rss_limit_mb=2048 -max_len=8192 -dict=$folder/$kind.dict -artifact_prefix=$folder/findings/$kind- \
    -print_final_stats=1 $folder/corpus/$kind tests/fuzz/corpus/$kind >$folder/$kind.log 2>&1; then
    echo "$kind: no findings in $(sed -n 's/stat::number_of_executed_units: *//p' $folder/$kind.log) runs"
  else
    tail -n 60 $folder/$kind.log >&2
    echo "$kind: a finding; see $folder/$kind.log and $folder/findings" >&2
    status=1
  fi
done
exit $status
