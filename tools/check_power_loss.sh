#!/usr/bin/env bash
# Cuts an emulated machine's power while it trains, saving after each update, on ext4, XFS and Btrfs at once: what isn't
# on the disk by then is lost. Each time all checkpoints must be intact, none may be missing that was published, and the
# run must continue.
#   sudo tools/check_power_loss.sh BUILD_FOLDER [TIMES]
# A time (10 unless given) takes one to two minutes. Also needs the Debian packages xfsprogs and btrfs-progs.
set -euo pipefail
# shellcheck source=tools/emulated_machine.sh
. "$(cd "$(dirname "$0")" && pwd)/emulated_machine.sh"
times=${1:-10}
systems=(ext4 xfs btrfs)
for system in "${systems[@]}"; do
  command -v "mkfs.$system" >/dev/null || fail "mkfs.$system is missing: apt-get install xfsprogs btrfs-progs"
done

echo "== A machine with ${systems[*]}"
make_machine <<'END'
job=(--set training.max_steps=1000000 --set checkpoint.save_steps=1 --set checkpoint.save_total_limit=3
  --set checkpoint.resume_from_checkpoint=auto --set checkpoint.metric_for_best_model=none --set evaluation.eval_steps=0)
# Whether the folder is as it must be after a loss of power; prints what it found.
judge() { # SYSTEM FOLDER
  local said newest code=0
  said=$(cat "/results/published-$1" 2>/dev/null || echo 0)
  "$TRAINER_BIN" checkpoint verify "$2" >"/results/verify-$1" 2>&1 || code=$?
  newest=$(ls -d "$2"/checkpoint-* | grep -o '[0-9]*$' | sort -n | tail -1)
  echo "$1: newest checkpoint $newest, published before: $said, verify: exit $code"
  [ "$code" -eq 0 ] && [ "$newest" -ge "$said" ]
}
device=b
for system in ext4 xfs btrfs; do
  modprobe $system; mkdir -p /disk/$system; mount -t $system /dev/vd$device /disk/$system || echo "$system: not mounted" >>/results/failures
  device=$(tr b-y c-z <<<$device)
  folder=/disk/$system/run
  if [ -d $folder/output ]; then
    judge $system $folder/output >>/results/log || cat /results/verify-$system >>/results/failures
  else
    mkdir -p $folder
    "$TRAINER_BIN" tokenize train --input data/examples/reports.txt --format delimited --vocab_size 400 --output $folder/tokenizer
    sync
  fi
  "$TRAINER_BIN" launch --config_file configs/quickstart_full.yaml --set tokenizer.path=$folder/tokenizer \
    --set output_dir=$folder/output "${job[@]}" >/results/run-$system 2>&1 &
done
if [ -e /results/last ]; then sleep 40; kill -TERM $(jobs -p); wait; return; fi
end=$((SECONDS + 25 + RANDOM % 40))
while [ $SECONDS -lt $end ]; do
  for system in ext4 xfs btrfs; do
    # /results is on the other side: it survives.
    readlink /disk/$system/run/output/latest 2>/dev/null | grep -o '[0-9]*$' >/tmp/latest && cp /tmp/latest /results/published-$system
  done
  sleep 0.1
done
echo b >/proc/sysrq-trigger; sleep 60
END
disks=()
for system in "${systems[@]}"; do
  disks+=("$work/$system")
  truncate -s 1G "$work/$system"
done
mke2fs -q -F -t ext4 "$work/ext4"
mkfs.xfs -q -f "$work/xfs"
mkfs.btrfs -q -f "$work/btrfs" >/dev/null 2>&1

for time in $(seq "$times"); do
  run_machine "${disks[@]}"
  echo "== Power cut $time"
  [ ! -e "$results/log" ] || { cat "$results/log"; rm "$results/log"; }
  [ ! -e "$results/failures" ] || fail "$(cat "$results/failures")"
done
touch "$results/last"
run_machine "${disks[@]}"
cat "$results/log"
[ ! -e "$results/failures" ] || fail "$(cat "$results/failures")"
[ "$(grep -l 'kept: .*checkpoint-' "$results"/run-* | wc -l)" -eq 3 ] || fail "The last runs did not save:" "$(tail -qn 3 "$results"/run-*)"
