# shellcheck shell=bash
# Bare Debian roots, like a freshly installed machine. Source this file first, with the script's arguments. It runs the
# script again, as root, in new namespaces, so that none of its mounts and processes outlive it, and sets $work to a
# folder.

fail() { printf 'error: %s\n' "$@" >&2; exit 1; }

if [ "${1:-}" != --in-namespace ]; then
  [ "$(id -u)" -eq 0 ] || fail "This script needs root, because it creates root folders and enters them."
  command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap"
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/$(basename "$0" .sh).XXXXXX")
  trap 'rm -rf --one-file-system "$work"' EXIT
  unshare --mount --pid --fork --kill-child "$0" --in-namespace "$work" "$@"
  exit
fi
work=$2
shift 2

# This machine's mirrors of a Debian release, as lines "URI CODENAME".
mirrors() { # SUITE
  apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(COMPONENT)' 'Created-By: Packages' 2>/dev/null |
    awk -v suite="$1" '$3 == "main" && $2 ~ "^" suite "(-updates|-security)?$" {print $1, $2}' | sort -u
}

# The settings that a Docker engine would also need: mirrors, name servers, proxies, certificates, pip's settings.
share_network_settings() { # ROOT SUITE
  local list file
  list=$(mirrors "$2" | sed 's/^/deb /; s/$/ main/')
  [ -z "$list" ] || echo "$list" >"$1/etc/apt/sources.list"
  apt-config dump | grep -E '^Acquire::(http|https|ForceIPv4|Check-)' >"$1/etc/apt/apt.conf.d/99host" || true
  for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/ssl/certs/ca-certificates.crt; do
    [ ! -e "$file" ] || cp -L "$file" "$1$file"
  done
}

bare_root() { # IMAGE: makes its folder on the first call, and prints it
  local suite root
  case $1 in
    debian:12 | debian:12-slim | debian:bookworm*) suite=bookworm ;;
    debian:13 | debian:13-slim | debian:trixie*) suite=trixie ;;
    *) fail "FROM $1: this script can only make Debian 12 and 13." ;;
  esac
  root=$work/base-$suite
  if [ ! -d "$root" ]; then
    echo "   debootstrap $suite" >&2
    # Certificates are installed from the start, so that this machine's can replace them.
    # shellcheck disable=SC2046 # without a mirror: debootstrap's default
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" \
      $(mirrors "$suite" | awk -v suite="$suite" '$2 == suite {print $1; exit}') >"$work/debootstrap.log" 2>&1 ||
      fail "debootstrap failed:" "$(tail -5 "$work/debootstrap.log")"
    share_network_settings "$root" "$suite"
  fi
  echo "$root"
}
