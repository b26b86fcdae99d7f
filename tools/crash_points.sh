#!/usr/bin/env bash
# Tests a kill and each of ENOSPC, EIO and EDQUOT at every file operation of a save, on 1, 2 and 4 ranks, and 1,000
# flipped bits in a checkpoint: crash_points.sh [BUILD_FOLDER]. ctest runs every third of these operations.
set -euo pipefail
build=${1:-build/release}
test=$build/bin/checkpoint_test
[ -x "$test" ] || test=$build/tests/checkpoint_test
export OMP_NUM_THREADS=1 TRAINER_EVERY_CRASH_POINT=1
exec "$test" --gtest_filter='*CrashPoints*:Damaged.DetectsEveryFlippedBit'
