#!/usr/bin/env bash
# Installs each package in build/packages (tools/package.sh) in a bare Debian 12 root without a compiler, and runs the
# quickstart's jobs from it: sudo tools/check_packages.sh [deb] [tar] [wheel] (default: all). Prints the size and the
# times of each.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/bare_root.sh
. "$here/tools/bare_root.sh"

[ $# -gt 0 ] || set -- deb tar wheel

in_root() { chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin "$@"; }
install_debian() { in_root sh -c "apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $*"; }

# Each prints the examples' folder last.
install_deb() {
  install_debian /packages/*.deb
  echo /usr/share/trainer
}

install_tar() {
  install_debian zstd
  in_root sh -c 'tar -C /opt --zstd -xf /packages/*.tar.zst && mv /opt/trainer-* /opt/moved && ln -s /opt/moved/bin/trainer /usr/local/bin/trainer'
  echo /opt/moved/share/trainer
}

# Installs torch without the CUDA libraries (3 GB) that its wheel also requires: a CPU run does not load them.
install_wheel() {
  local wheels
  wheels=$(awk '!/^#/ {printf "%s==%s ", $1, $2}' "$here/tools/wheels.txt")
  install_debian python3-venv
  in_root python3 -m venv /opt/environment
  in_root sh -c "/opt/environment/bin/pip install -q --no-deps $wheels /packages/*.whl"
  in_root ln -s /opt/environment/bin/trainer /usr/local/bin/trainer
  in_root sh -c 'echo /opt/environment/lib/python3*/site-packages/trainer_engine/examples'
}

quickstart() { # EXAMPLES
  in_root sh -e -c '
    ! command -v gcc cc c++ g++
    cp -r "$0" /tmp/try
    cd /tmp/try
    trainer --version
    trainer tokenize train --input data/examples/reports.txt data/examples/topics.txt --format delimited \
      --vocab_size 400 --output runs/quickstart/tokenizer
    trainer launch --config_file configs/quickstart_full.yaml
    trainer launch --config_file configs/quickstart_lora.yaml
    find runs -name adapter_model.safetensors | grep .' "$1"
}

summary=()
for kind; do
  case $kind in
    deb) pattern='*.deb' ;;
    tar) pattern='*.tar.zst' ;;
    wheel) pattern='*.whl' ;;
    *) fail "'$kind' is not a kind of package; use deb, tar or wheel" ;;
  esac
  mapfile -t files < <(find "$here/build/packages" -name "$pattern")
  [ ${#files[@]} -eq 1 ] || fail "build/packages has ${#files[@]} files $pattern, expected one: run tools/package.sh $kind"
  base=$(bare_root debian:12)
  root=$work/$kind
  cp -a "$base" "$root"
  mkdir "$root/packages"
  cp "${files[0]}" "$root/packages/"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  begin=$SECONDS
  printf '\n== %s: installing\n' "$kind"
  "install_$kind" >"$work/$kind.log" 2>&1 </dev/null || fail "$kind could not be installed:" "$(tail -20 "$work/$kind.log")"
  installed=$SECONDS
  printf '== %s: the quickstart\n' "$kind"
  quickstart "$(tail -1 "$work/$kind.log")" </dev/null
  summary+=("$(printf '%-6s %5s MB  installed in %3s s  quickstart %3s s' "$kind" "$(du -m "${files[0]}" | cut -f1)" $((installed - begin)) $((SECONDS - installed)))")
done
printf '\n'
printf '%s\n' "${summary[@]}"
echo "The packages work."
