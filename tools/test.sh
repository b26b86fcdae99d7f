#!/usr/bin/env bash
# Installs missing packages, builds, and runs all tests. Arguments are passed to ctest: tools/test.sh -R config
set -euo pipefail
cd "$(dirname "$0")/.."

tools/setup.sh
cmake --preset dev
cmake --build --preset dev
ctest --preset dev "$@"
