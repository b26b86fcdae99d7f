# shellcheck shell=bash
# An emulated machine with Debian's kernel, for what needs a kernel of its own: file systems, loss of power. Source this
# file with the script's arguments, of which the first is a build folder. Runs as root, with $work as in bare_root.sh, and
# sets $build and $results: a folder that the machine sees as /results. It needs neither /dev/kvm nor this machine's
# kernel modules. Needs the Debian packages qemu-system-x86, debootstrap and e2fsprogs.
here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/bare_root.sh
. "$here/tools/bare_root.sh"
command -v qemu-system-x86_64 >/dev/null || fail "qemu is missing: apt-get install qemu-system-x86"
build=$(cd "${1:?BUILD_FOLDER is missing}" && pwd)
[ -x "$build/bin/trainer" ] || fail "$build/bin/trainer does not exist: build the preset release first."
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trainer # libtorch: programs look for it at this path
results=$work/results
mkdir "$results"

# The Debian packages of the programs' libraries.
library_packages() {
  ldd "$build"/bin/trainer "$build"/bin/trainer-worker "$build"/bin/trainer-prepare |
    awk '$3 ~ "^/(usr/)?lib/" {print $3}' | sort -u | while read -r library; do
    dpkg -S "$(basename "$library")" 2>/dev/null | awk -F: '/x86_64-linux-gnu/ {print $1; exit}'
  done | sort -u
}

# Makes its disk, with a script of bash, read from standard input, that it runs once it has started, and that ends with
# the machine.
make_machine() { # PACKAGE…
  local root packages script
  script=$(cat)
  root=$(bare_root debian:12)
  mapfile -t packages < <(library_packages)
  packages+=(linux-image-amd64 iproute2 kmod procps python3 libgomp1 "$@")
  chroot "$root" apt-get update -q >"$work/apt.log" 2>&1 &&
    DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -q -y --no-install-recommends "${packages[@]}" \
      >>"$work/apt.log" 2>&1 || fail "The packages could not be installed:" "$(tail -5 "$work/apt.log")"
  mkdir -p "$root$here" "$root$build" "$root$cache" "$root/results"
  echo "$script" >"$root/sbin/script"
  cat >"$root/sbin/begin" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys 2>/dev/null; mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; for folder in /dev/shm /tmp /run; do mount -t tmpfs tmpfs \$folder; done
modprobe -a 9p 9pnet_virtio; hostname machine; ip link set lo up
share() { mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,\$3" "\$1" "\$2"; }
share here "$here" ro,cache=loose; share build "$build" ro,cache=loose; share cache "$cache" ro,cache=loose; share results /results rw
export TRAINER_BIN=$build/bin/trainer OMP_NUM_THREADS=1 XDG_CACHE_HOME=/tmp/cache
cd "$here" && . /sbin/script
sync; touch /results/done; poweroff -f
END
  chmod +x "$root/sbin/begin"
  mv "$root"/boot/vmlinuz-* "$work/kernel"
  mv "$root"/boot/initrd.img-* "$work/initrd"
  truncate -s 6G "$work/disk"
  mke2fs -q -F -t ext4 -d "$root" "$work/disk"
}

# Runs the machine until it ends. DISK: the image of a further disk, /dev/vdb and so on.
run_machine() { # DISK…
  local options=() disk
  for disk in "$work/disk" "$@"; do options+=(-drive "file=$disk,format=raw,if=virtio,cache=unsafe"); done
  shared() { options+=(-virtfs "local,path=$2,mount_tag=$1,security_model=none,multidevs=remap${3:-}"); }
  shared here "$here" ,readonly=on; shared build "$build" ,readonly=on; shared cache "$cache" ,readonly=on
  shared results "$results"
  qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 6G -nographic -no-reboot \
    -kernel "$work/kernel" -initrd "$work/initrd" \
    -append "root=/dev/vda rw console=ttyS0 net.ifnames=0 edd=off mitigations=off panic=-1 init=/sbin/begin" \
    "${options[@]}" >"$work/console" 2>&1 </dev/null
}
