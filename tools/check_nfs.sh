#!/usr/bin/env bash
# Runs end-to-end tests on NFS: an emulated machine exports a folder to itself by NFS 4.2, and runs the tests there, with
# their files in that folder.
#   sudo tools/check_nfs.sh BUILD_FOLDER [CLASS…]
# CLASS: as for `python3 -m unittest` in tests/end_to_end. Emulation is 10 to 30 times slower than the machine.
set -euo pipefail
# shellcheck source=tools/emulated_machine.sh
. "$(cd "$(dirname "$0")" && pwd)/emulated_machine.sh"

classes=("$@")
[ $# -gt 0 ] || classes=(checkpoint_test resume_test stop_test save_now_test older_life_test limits_test files_test
  export_test merge_test report_test restart_test elected_test elastic_test)

echo "== A machine with NFS"
make_machine nfs-kernel-server rpcbind <<END
modprobe -a nfsd nfs; mkdir -p /run/lock /var/lib/nfs/rpc_pipefs /export /shared
mount -t nfsd nfsd /proc/fs/nfsd; mount -t rpc_pipefs rpc /var/lib/nfs/rpc_pipefs
echo '/export 127.0.0.1(rw,no_root_squash,no_subtree_check,fsid=0,sync)' >/etc/exports
rpcbind; exportfs -ra; rpc.mountd; rpc.nfsd -N 3 8
mount -t nfs4 127.0.0.1:/ /shared && mkdir /shared/tests || echo "NFS could not be mounted." >/results/failures
export TMPDIR=/shared/tests TRAINER_TEST_PATIENCE=5 PYTHONDONTWRITEBYTECODE=1
cd tests/end_to_end
for class in ${classes[*]}; do
  begin=\$SECONDS
  python3 -m unittest \$class >/tmp/said 2>&1 || cat /tmp/said >>/results/failures
  echo "\$class: \$(tail -1 /tmp/said), \$((SECONDS - begin)) s" >>/results/log
done
END

echo "== The tests"
touch "$results/log"
run_machine &
tail --pid=$! -f "$results/log"
[ -e "$results/done" ] || fail "The machine ended early:" "$(tail -20 "$work/console")"
[ ! -e "$results/failures" ] || fail "$(cat "$results/failures")"
