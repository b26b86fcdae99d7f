#!/usr/bin/env bash
# Installs the missing dependencies of a build: Debian or Ubuntu packages (as root or with sudo), then the libraries in
# tools/wheels.txt and tools/wheels_arrow.txt into the cache folder. --cuda also installs those in tools/wheels_cuda.txt (3 GB), for a build with
# TRAINER_CUDA=ON; a GPU, its driver and a CUDA toolkit are not needed. --packaging also installs the dependencies of
# tools/package.sh. --peers also installs programs that some tests run the trainer against, and that are skipped without
# them: Chromium and Prometheus (Debian packages), MLflow and TensorBoard (from PyPI, in a virtual environment of their own
# in the cache folder, trainer/peers). For Debian 12 and 13 and Ubuntu 24.04.
set -euo pipefail

packages=(
  g++ cmake ninja-build ccache mold pkg-config python3 python3-pip ca-certificates
  libyaml-cpp-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libcli11-dev libsentencepiece-dev
  libpcre2-dev libutf8proc-dev zlib1g-dev libzstd-dev libxxhash-dev libssl-dev libdw-dev
  libgloo-dev # headers only: torch's Gloo backend includes them
  libjs-chart.js # the curves of report.html
  libcurl4-openssl-dev # for logging.report_to: [mlflow]; optional
  libopenmpi-dev openmpi-bin # for training.ddp_backend: mpi; optional
  libgtest-dev libgmock-dev
  spin # explores the models in tests/formal
)
peers=
while [ "${1:-}" = --packaging ] || [ "${1:-}" = --peers ]; do
  if [ "$1" = --packaging ]; then
    packages+=(patchelf dpkg-dev zstd)
  else
    packages+=(chromium prometheus python3-venv)
    peers=${XDG_CACHE_HOME:-$HOME/.cache}/trainer/peers
  fi
  shift
done

fail() { printf 'error: %s\n' "$@" >&2; exit 1; }

missing_packages() {
  local installed
  installed=$(dpkg-query --show --showformat '${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qxF "installed $package" <<<"$installed" || printf '%s ' "$package"
  done
}

lock_seconds=600
# Waits for another apt-get, such as the one that runs when a machine has started, to have read its lists: unlike that of
# the packages, this lock is one that apt-get doesn't wait for.
wait_for_lists() {
  local inode waited=0
  inode=$(stat -c %i /var/lib/apt/lists/lock 2>/dev/null) || return 0
  while grep -q ":$inode " /proc/locks 2>/dev/null && [ $waited -lt "$lock_seconds" ]; do
    [ $waited -gt 0 ] || echo "Waiting for another apt-get"
    waited=$((waited + 1))
    sleep 1
  done
}

install_packages() { # NAME…
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "These packages are missing, and installing them needs root or sudo:" "$*"
    as_root=(sudo)
  fi
  echo "Installing Debian packages: $*"
  wait_for_lists
  "${as_root[@]}" apt-get update -q || fail "apt-get update failed: see its message above. Check the network and proxy."
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=$lock_seconds install -q -y \
    --no-install-recommends "$@" ||
    fail "apt-get could not install: $*" "See its message above. On Ubuntu, these packages are in the component 'universe'."
}

[ "$(uname -s) $(uname -m)" = "Linux x86_64" ] || fail "This machine is $(uname -s) $(uname -m), but the libraries are for Linux x86_64."
command -v apt-get >/dev/null || fail "This script supports Debian 12 and 13 and Ubuntu 24.04. Elsewhere, install the equivalent of: ${packages[*]}" \
  "and then run tools/fetch_wheels.py."

missing=$(missing_packages)
# shellcheck disable=SC2086 # one word per package
[ -z "$missing" ] || install_packages $missing
python3 "$(dirname "$0")/fetch_wheels.py" "$@"
if [ -n "$peers" ]; then
  echo "Installing MLflow and TensorBoard into $peers"
  /usr/bin/python3 -m venv "$peers" || fail "$peers cannot be made: see the message above."
  "$peers/bin/python" -m pip install -q mlflow tensorboard 'setuptools<81' || fail "pip could not install mlflow and tensorboard."
fi
