#!/usr/bin/env bash
# Tests the Dockerfile without a Docker engine: runs its steps in one bare root per stage, made by debootstrap, and then
# the entry point with --help and, if given, with this script's arguments (separate several commands with "--"), all as
# the Dockerfile's user. To run the main job:
#   sudo tools/check_dockerfile.sh \
#     tokenize train --input data/examples/reports.txt --format delimited --vocab_size 400 --output runs/quickstart/tokenizer \
#     -- launch --config_file configs/quickstart_full.yaml
# Supports the instructions and forms that our Dockerfile uses, and stops at any other.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/bare_root.sh
. "$here/tools/bare_root.sh"

# --- the instructions -------------------------------------------------------------------------------------------------

declare -A stages=()
root='' user=root workdir=/ environment=() entry_point=()

expand() { # TEXT: expands the variables of ENV and ARG
  env -i "${environment[@]}" sh -c 'eval "printf %s \"$0\""' "$1"
}

in_root() { # COMMAND…: runs as the stage's user, in its folder, with only its variables
  local home proxies=() name
  home=$(awk -F: -v user="$user" '$1 == user {print $6}' "$root/etc/passwd")
  for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
    [ -z "${!name:-}" ] || proxies+=("$name=${!name}")
  done
  chroot --userspec="$user" "$root" /usr/bin/env -i HOME="$home" "${proxies[@]}" "${environment[@]}" \
    /bin/sh -c 'cd "$0" && exec "$@"' "$workdir" "$@"
}

do_from() { # IMAGE [AS NAME]
  local base
  base=${stages[$1]:-$(bare_root "$1")}
  root=$work/stage-${#stages[@]} user=root workdir=/ entry_point=()
  environment=(PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin)
  cp -a "$base" "$root"
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  mount --rbind -o ro /sys "$root/sys"
  stages[${3:-${#stages[@]}}]=$root
}

do_copy() { # [--from=STAGE] [--chown=OWNER] SOURCE… TARGET
  local from=$work/context owner='' target source name
  while [[ $1 == --* ]]; do
    case $1 in
      --from=*) from=${stages[${1#*=}]} ;;
      --chown=*) owner=${1#*=} ;;
      *) fail "COPY $1: this script does not support it" ;;
    esac
    shift
  done
  target=$(expand "${!#}")
  [[ $target == /* ]] || target=$workdir/$target
  [ $# -eq 2 ] || [[ $target == */ ]] || fail "COPY of several files needs a target that ends with /"
  for source in "${@:1:$#-1}"; do
    name=$target
    if [ -d "$from/$source" ]; then
      mkdir -p "$root$name"
      cp -dR --preserve=mode,timestamps "$from/$source/." "$root$name"
    else
      [[ $target != */ ]] || name=$target$(basename "$source")
      mkdir -p "$(dirname "$root$name")"
      cp -dR --preserve=mode,timestamps "$from/$source" "$root$name"
    fi
    [ -z "$owner" ] || chroot "$root" chown -R "$owner" "$name"
  done
}

do_arg() { # NAME[=DEFAULT]: this script's environment replaces --build-arg
  local name=${1%%=*}
  if [ -n "${!name:-}" ]; then
    environment+=("$name=${!name}")
  elif [[ $1 == *=* ]]; then
    environment+=("$(expand "$1")")
  fi
}

json_words() { python3 -c 'import json, sys; print(*json.loads(sys.argv[1]), sep="\n")' "$1"; }

step() { # INSTRUCTION REST
  local words pair
  read -r -a words <<<"$2"
  case $1 in
    FROM) do_from "${words[@]}" ;;
    ARG) do_arg "$2" ;;
    ENV) for pair in "${words[@]}"; do environment+=("$(expand "$pair")"); done ;;
    WORKDIR) workdir=$(expand "$2") && mkdir -p "$root$workdir" ;;
    USER) user=$(expand "$2") ;;
    COPY) do_copy "${words[@]}" ;;
    RUN) in_root /bin/sh -c "$2" ;;
    ENTRYPOINT) mapfile -t entry_point < <(json_words "$2") ;;
    LABEL) ;;
    CMD) json_words "$2" >/dev/null ;;
    *) fail "$1: this script does not support it" ;;
  esac
}

# --- all steps --------------------------------------------------------------------------------------------------------

mkdir "$work/context"
sed -E '/^(#|$)/d; s|^/?|./|' "$here/.dockerignore" >"$work/ignored"
tar -C "$here" --anchored --exclude-from="$work/ignored" -cf - . | tar -C "$work/context" -xf -

# Steps are read from descriptor 3, so that no command can read them as its input.
while read -r -u 3 instruction rest; do
  echo "==> $instruction $rest"
  step "$instruction" "$rest" </dev/null
done 3< <(sed -E '/^[[:space:]]*(#|$)/d' "$here/Dockerfile" | sed -E ':join; /\\$/ {N; s/\\\n[[:space:]]*//; b join}')

[ "${#entry_point[@]}" -gt 0 ] || fail "The Dockerfile has no ENTRYPOINT."
[ "$user" != root ] || fail "The Dockerfile's last stage runs as root."
call() {
  echo "==> ${entry_point[*]} $*, as $user"
  in_root "${entry_point[@]}" "$@" </dev/null
}
call --help
words=()
for word in "$@" --; do
  if [ "$word" != -- ]; then
    words+=("$word")
  elif [ "${#words[@]}" -gt 0 ]; then
    call "${words[@]}"
    words=()
  fi
done
echo "The Dockerfile's steps work."
