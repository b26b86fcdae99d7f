#!/usr/bin/env bash
# Makes packages that install without a compiler: tools/package.sh [deb] [tar] [wheel] (default: all), into build/packages.
#   deb    for the Debian release it is built on, includes libtorch: apt-get install ./trainer_*.deb
#   tar    a folder to unpack anywhere, with all libraries except glibc's and g++'s
#   wheel  for Python environments with the same version of torch: pip install trainer_engine-*.whl
# Each contains a bill of materials (SPDX) and the licenses of its libraries. tools/check_packages.sh tests them.
set -euo pipefail
cd "$(dirname "$0")/.."

[ $# -gt 0 ] || set -- deb tar wheel
version=$(sed -n 's/^project(trainer VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
torch=$(awk '$1 == "torch" {print $2}' tools/wheels.txt)
revision=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
output=build/packages
programs=(trainer trainer-prepare trainer-worker trainer-tracker)

say() { printf '\n== %s\n' "$*"; }

tools/setup.sh --packaging
say "Building (build/release)"
cmake --preset release -DTRAINER_REVISION="$revision" >/dev/null
cmake --build --preset release
mkdir -p "$output"

# --- parts ------------------------------------------------------------------------------------------------------------

# This machine's shared libraries that the programs need, except those of glibc, g++ and libtorch.
system_libraries() {
  local name
  for name in "${programs[@]}"; do ldd "build/release/bin/$name"; done |
    awk '$2 == "=>" && $3 ~ /^\/(usr\/)?lib\// {print $3}' | sort -u |
    grep -vE '/(ld-linux|lib(c|m|dl|rt|util|pthread|resolv|stdc\+\+|gcc_s)\.so)'
}

# Copies the libraries into FOLDER, where they find each other.
bundle_libraries() { # FOLDER
  local library
  mkdir -p "$1"
  while read -r library; do
    cp -L "$library" "$1/"
    patchelf --set-rpath '$ORIGIN' "$1/$(basename "$library")"
  done < <(system_libraries)
}

# The programs and libtorch, without what is only for building programs against them.
install_programs() { # PREFIX
  local component
  for component in programs libtorch; do
    cmake --install build/release --prefix "$1" --component "$component" --strip >/dev/null
  done
}

license_files() { # FOLDER LIBRARY…
  local folder=$1 package library
  shift
  mkdir -p "$folder"
  for library; do
    package=$(dpkg-query --search "$(realpath "$library")" 2>/dev/null || dpkg-query --search "${library#/usr}")
    package=${package%%:*}
    cp -L "/usr/share/doc/$package/copyright" "$folder/$package"
  done
}

# --- packages ---------------------------------------------------------------------------------------------------------

make_deb() {
  local root=$work/deb depends size
  install_programs "$root/usr"
  mkdir -p "$root/DEBIAN" "$work/debian"
  tools/packaging/sbom.py "$version" "$revision" --wheels >"$root/usr/share/doc/trainer/sbom.spdx.json"
  touch "$work/debian/control"
  # No package provides libtorch, because this package contains it.
  (cd "$work" && dpkg-shlibdeps --ignore-missing-info -O "${programs[@]/#/deb/usr/lib/trainer/bin/}") \
    >"$work/depends" 2>"$work/warnings" || { cat "$work/warnings" >&2; exit 1; }
  depends=$(sed 's/^shlibs:Depends=//' "$work/depends")
  size=$(du -sk "$root/usr" | cut -f1)
  cat >"$root/DEBIAN/control" <<CONTROL
Package: trainer
Version: $version
Architecture: amd64
Maintainer: trainer maintainers <maintainers@localhost>
Installed-Size: $size
Depends: $depends
Suggests: libopenmpi3, openmpi-bin
Section: science
Priority: optional
Description: trains transformer models from one YAML file
 Trains and fine-tunes transformer models from the configuration file of
 Accelerate: DDP, FSDP, ZeRO, tensor and pipeline parallel, LoRA.
 Includes libtorch $torch.
CONTROL
  dpkg-deb --root-owner-group -Zzstd --build "$root" "$output/trainer_${version}_amd64.deb" >/dev/null
}

make_tar() {
  local root=$work/trainer-$version libraries
  mapfile -t libraries < <(system_libraries)
  install_programs "$root"
  bundle_libraries "$root/lib/trainer/lib"
  license_files "$root/share/doc/trainer/licenses" "${libraries[@]}"
  tools/packaging/sbom.py "$version" "$revision" --wheels --libraries "${libraries[@]}" >"$root/share/doc/trainer/sbom.spdx.json"
  tar -C "$work" --owner=0 --group=0 --sort=name -cf - "trainer-$version" | zstd -q -f -T0 -10 -o "$output/trainer-$version-linux-x86_64.tar.zst"
}

make_wheel() {
  local root=$work/wheel/trainer_engine libraries glibc
  mapfile -t libraries < <(system_libraries)
  glibc=$(getconf GNU_LIBC_VERSION | cut -d' ' -f2)
  cmake --install build/release --prefix "$work/wheel/installed" --component programs --strip >/dev/null
  mkdir -p "$root"
  mv "$work/wheel/installed/lib/trainer/bin" "$root/bin"
  mv "$work/wheel/installed/share/trainer" "$root/examples"
  cp tools/packaging/trainer_engine.py "$root/__init__.py"
  bundle_libraries "$root/lib"
  license_files "$root/licenses" "${libraries[@]}"
  tools/packaging/sbom.py "$version" "$revision" --libraries "${libraries[@]}" >"$root/sbom.spdx.json"
  tools/packaging/wheel.py "$root" "$version" "$torch" "$glibc" "$output" >/dev/null
}

for kind; do
  case $kind in
    deb | tar | wheel) ;;
    *) echo "error: '$kind' is not a kind of package; use deb, tar or wheel" >&2; exit 2 ;;
  esac
done
work=$(mktemp -d "build/package.XXXXXX")
work=$PWD/$work
trap 'rm -rf "$work"' EXIT
for kind; do
  say "Packing: $kind"
  "make_$kind"
done
ls -lh "$output"
