#!/usr/bin/env bash
# Runs end-to-end tests on NFS: starts Debian's kernel in an emulated machine (no /dev/kvm, no module of this machine's
# kernel), which exports a folder to itself by NFS 4.2, and runs the tests there with their files in that folder.
#   sudo tools/check_nfs.sh BUILD_FOLDER [CLASS…]
# CLASS: as for `python3 -m unittest` in tests/end_to_end. Emulation is 10 to 30 times slower: all the default ones take
# about half an hour.
# Needs the Debian packages qemu-system-x86, debootstrap and e2fsprogs.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
# shellcheck source=tools/bare_root.sh
. "$here/tools/bare_root.sh"
command -v qemu-system-x86_64 >/dev/null || fail "qemu is missing: apt-get install qemu-system-x86"
build=$(cd "${1:?BUILD_FOLDER is missing}" && pwd)
shift
cache=${XDG_CACHE_HOME:-$HOME/.cache}/trainer # libtorch: programs look for it at this path
classes=("$@")
[ $# -gt 0 ] || classes=(checkpoint_test resume_test stop_test save_now_test older_life_test limits_test files_test
  export_test merge_test restart_test elastic_test elected_test report_test)

packages=(linux-image-amd64 nfs-kernel-server rpcbind iproute2 kmod procps python3 libgomp1)
# The libraries that the programs need from Debian, by package.
libraries() {
  ldd "$build"/bin/trainer "$build"/bin/trainer-worker "$build"/bin/trainer-prepare "$build"/bin/trainer-tracker 2>/dev/null |
    awk '$3 ~ "^/(usr/)?lib/" {print $3}' | sort -u | while read -r library; do
    dpkg -S "$(basename "$library")" 2>/dev/null | awk -F: '/x86_64-linux-gnu/ {print $1; exit}'
  done | sort -u
}

echo "== A root folder with a kernel"
root=$(bare_root debian:12)
mapfile -t needed < <(libraries)
chroot "$root" apt-get update -q >"$work/apt.log" 2>&1 &&
  DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get install -q -y --no-install-recommends "${packages[@]}" "${needed[@]}" \
    >>"$work/apt.log" 2>&1 || fail "The packages could not be installed:" "$(tail -5 "$work/apt.log")"
mkdir -p "$root$here" "$root$build" "$root$cache" "$root/results" "$root/export" "$root/shared" "$work/results"
cat >"$root/sbin/on-nfs" <<END
#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys 2>/dev/null; mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts; for folder in /dev/shm /tmp /run; do mount -t tmpfs tmpfs \$folder; done
modprobe -a 9p 9pnet_virtio nfsd nfs
share() { mount -t 9p -o trans=virtio,version=9p2000.L,msize=512000,\$3 "\$1" "\$2"; }
share here "$here" ro,cache=loose; share build "$build" ro,cache=loose; share cache "$cache" ro,cache=loose; share results /results rw
hostname machine; ip link set lo up; mkdir -p /run/lock /var/lib/nfs/rpc_pipefs
mount -t nfsd nfsd /proc/fs/nfsd; mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
echo '/export 127.0.0.1(rw,no_root_squash,no_subtree_check,fsid=0,sync)' >/etc/exports
rpcbind; exportfs -ra; rpc.mountd; rpc.nfsd -N 3 8
mount -t nfs4 127.0.0.1:/ /shared && mkdir /shared/tests || echo "NFS could not be mounted." >/results/failures
export TRAINER_BIN=$build/bin/trainer TRAINER_TEST_PATIENCE=5 PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
export TMPDIR=/shared/tests XDG_CACHE_HOME=/tmp/cache
cd $here/tests/end_to_end
for class in ${classes[*]}; do
  begin=\$SECONDS
  python3 -m unittest \$class >/tmp/said 2>&1 || cat /tmp/said >>/results/failures
  echo "\$class: \$(tail -1 /tmp/said), \$((SECONDS - begin)) s" >>/results/log
done
sync; touch /results/done; poweroff -f
END
chmod +x "$root/sbin/on-nfs"
truncate -s 6G "$work/disk"
mke2fs -q -F -t ext4 -d "$root" "$work/disk"

echo "== The tests"
share() { echo "-virtfs local,path=$2,mount_tag=$1,security_model=none,multidevs=remap$3"; }
# shellcheck disable=SC2046 # options
qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 6G -nographic -no-reboot \
  -kernel "$root"/boot/vmlinuz-* -initrd "$root"/boot/initrd.img-* \
  -append "root=/dev/vda rw console=ttyS0 net.ifnames=0 edd=off mitigations=off panic=-1 init=/sbin/on-nfs" \
  -drive "file=$work/disk,format=raw,if=virtio,cache=unsafe" \
  $(share here "$here" ,readonly=on) $(share build "$build" ,readonly=on) $(share cache "$cache" ,readonly=on) \
  $(share results "$work/results" "") >"$work/console" 2>&1 </dev/null &
touch "$work/results/log"
tail --pid=$! -f "$work/results/log"
[ -e "$work/results/done" ] || fail "The machine ended early:" "$(tail -20 "$work/console")"
[ ! -e "$work/results/failures" ] || fail "$(cat "$work/results/failures")"
