#!/usr/bin/env bash
# Installs what is missing, builds, and runs all tests. Arguments go to ctest: tools/test.sh -R config
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset dev
cmake --build --preset dev
ctest --preset dev "$@"
