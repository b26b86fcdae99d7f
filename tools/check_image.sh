#!/usr/bin/env bash
# Builds the Dockerfile's image with podman, on a Debian 12 made by debootstrap, and tries it as users would: the main job
# as a user without privileges, a stop and a resume, and one run in two containers. Prints the image's size.
#   sudo tools/check_image.sh [cuda]
# The CUDA variant is also tried on GPUs that this machine doesn't show to containers: exit codes and messages.
# Needs the Debian packages podman, runc and debootstrap. CCACHE_DIR, if set, is used by the image's compiler too.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/bare_root.sh
. "$here/tools/bare_root.sh"
mount -t proc proc /proc # of this PID namespace, for the container runtime
command -v podman runc >/dev/null || fail "podman or runc is missing: apt-get install podman runc"

# Images, containers and networks of this script only; all of them are deleted with $work.
export CONTAINERS_STORAGE_CONF=$work/storage.conf
printf '[storage]\ndriver = "overlay"\ngraphroot = "%s/storage"\nrunroot = "%s/run"\n' "$work" "$work" >"$work/storage.conf"
podman() {
  command podman --runtime runc --cgroup-manager cgroupfs --events-backend none --network-config-dir "$work/networks" "$@"
}
trap 'podman rm --all --force --time 0 >/dev/null 2>&1; podman network prune --force >/dev/null 2>&1; umount -R "$work/storage/overlay" 2>/dev/null || true' EXIT
say() { printf '\n== %s\n' "$*"; }

# --- the image --------------------------------------------------------------------------------------------------------

say "Building the image"
base=$(bare_root debian:12)
tar -C "$base" -c . | podman import - docker.io/library/debian:12 >/dev/null 2>&1
build=(--pull=never --network host --build-arg "TRAINER_REVISION=$(git -C "$here" rev-parse --short=12 HEAD)")
[ "${1:-}" != cuda ] || build+=(--build-arg TRAINER_CUDA=ON)
[ -z "${CCACHE_DIR:-}" ] || build+=(--volume "$CCACHE_DIR:/root/.cache/ccache")
podman build "${build[@]}" -t trainer "$here" >"$work/build.log" 2>&1 || fail "The build failed:" "$(tail -20 "$work/build.log")"
podman image inspect trainer --format '{{.Size}}' | awk '{printf "The image has %.0f MB.\n", $1 / 1e6}'
podman image inspect trainer --format '{{range $key, $value := .Labels}}{{$key}}: {{$value}}{{println}}{{end}}'

# --- one container ----------------------------------------------------------------------------------------------------

mkdir -m 777 "$work/runs"
runs=/home/trainer/runs
container() { # NAME OPTION…: runs the image with a volume for its results
  podman run --pull=never --name "$1" --volume "$work/runs:$runs" "${@:2}"
}
tokenize=(tokenize train --input data/examples/reports.txt --format delimited --vocab_size 400
  --output runs/quickstart/tokenizer)
launch=(launch --config_file configs/quickstart_full.yaml)
final_losses() { # FOLDER: the last lines of its metrics
  grep '"loss"' "$work/runs/$1/metrics.jsonl" | tail -1 | grep -o '"loss": *[^,}]*'
}

say "The main job, as $(container who --rm --entrypoint id trainer)"
container version --rm trainer --version
podman run --rm --pull=never --entrypoint sh trainer -c 'test -s /opt/trainer/share/sbom.spdx.json' || fail "The image has no bill of materials."
container tokenizer --rm trainer "${tokenize[@]}"
container whole --rm trainer "${launch[@]}" 2>&1 | tail -3
[ -s "$work/runs/quickstart/full/model.safetensors" ] || fail "The run exported no model."

say "Stopped by the engine, then resumed"
stopped=(--set output_dir=$runs/stopped)
container stopped --detach trainer "${launch[@]}" "${stopped[@]}" >/dev/null
until [ "$(wc -l 2>/dev/null <"$work/runs/stopped/metrics.jsonl" || echo 0)" -ge 5 ]; do sleep 0.2; done
[ "$(podman exec stopped cat /proc/1/comm)" = tini ] || fail "Process 1 is not tini."
podman stop --time 60 stopped >/dev/null
status=$(podman inspect stopped --format '{{.State.ExitCode}}')
podman logs stopped 2>&1 | tail -3
[ "$status" -eq 143 ] || fail "The stopped container ended with $status, not 143."
ls "$work/runs/stopped" | grep -q '^checkpoint-' || fail "The stop saved nothing."
container resumed --rm trainer "${launch[@]}" "${stopped[@]}" 2>&1 | tail -1
[ "$(final_losses stopped)" = "$(final_losses quickstart/full)" ] ||
  fail "The resumed run ends with $(final_losses stopped), not $(final_losses quickstart/full)."

if [ "${1:-}" = cuda ]; then
  say "Without a GPU"
  refused() { # CODE TEXT COMMAND…
    local status=0 said
    said=$(container refused --rm trainer "${@:3}" 2>&1) || status=$?
    echo "$said"
    [ "$status" -eq "$1" ] || fail "It ended with $status, not $1."
    grep -qF -- "$2" <<<"$said" || fail "It doesn't say '$2'."
  }
  gpus=(--set output_dir=$runs/gpus --set use_cpu=false)
  refused 2 "this machine shows no NVIDIA GPU" "${launch[@]}" "${gpus[@]}" --set distributed_type=MULTI_GPU --num_processes 2
  [ ! -e "$work/runs/gpus" ] || fail "The refused run left files."
  # libtrainer_cuda.so and all that it is linked with are found, and ask the driver.
  refused 4 "CUDA driver" selftest --device cuda --num_processes 1
fi

# --- two containers ---------------------------------------------------------------------------------------------------

say "One run in two containers"
podman network create --subnet 10.213.7.0/24 two >/dev/null
head -c 32 /dev/urandom | base64 >"$work/secret"
chown "$(podman run --rm --pull=never --entrypoint id trainer --user)" "$work/secret" # no one else may read it
chmod 400 "$work/secret"
for rank in 0 1; do
  container "machine$rank" --detach --network two --ip "10.213.7.1$rank" --volume "$work/secret:/run/secrets/trainer:ro" \
    --env TRAINER_SECRET_FILE=/run/secrets/trainer trainer "${launch[@]}" --set output_dir=$runs/two \
    --num_machines 2 --machine_rank "$rank" --main_process_ip 10.213.7.10 >/dev/null
done
for rank in 0 1; do
  status=$(podman wait "machine$rank")
  podman logs "machine$rank" 2>&1 | tail -2
  [ "$status" -eq 0 ] || fail "Container $rank ended with $status:" "$(podman logs "machine$rank" 2>&1 | tail -20)"
done
[ "$(final_losses two)" = "$(final_losses quickstart/full)" ] ||
  fail "The run in two containers ends with $(final_losses two), not $(final_losses quickstart/full)."

echo "The image works."
