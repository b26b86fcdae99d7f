"""A real SLURM on this machine: three nodes, each with a network of its own, from Debian's slurmctld, slurmd and munge."""

import os
import pathlib
import shutil
import socket
import stat
import subprocess
import tempfile
import time
import uuid

NODES = ("node1", "node2", "node3")
UNKNOWN_TO_DNS = "node1"  # only SLURM has its address
KILL_WAIT = 4  # seconds between SIGTERM and SIGKILL
EXPIRES = 8  # seconds until a credential expires, and until a job starts that has been put into the queue again
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "scontrol", "ip", "nsenter", "unshare")
START = 30  # seconds until the nodes must be idle

CONFIGURATION = """\
ClusterName=t
SlurmctldHost=head({head})
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire={expires}
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdSpoolDir={folder}/spool.%n
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/affinity
SwitchType=switch/none
MpiDefault=none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
GresTypes=gpu
ReturnToService=2
KillWait={kill_wait}
SlurmdTimeout=20
PartitionName=p Nodes={nodes} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
{node_lines}
"""


def why_no_slurm():
    """"" when a cluster can be started here."""
    if os.geteuid() != 0:
        return "SLURM's daemons and network namespaces need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return f"{', '.join(missing)} not installed (apt-get install slurm-wlm munge iproute2)"
    probe = subprocess.run(["unshare", "-m", "-u", "ip", "netns", "list"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"namespaces cannot be made: {probe.stderr.strip()}"


class Slurm:
    """Up after the constructor; `srun`, `sbatch` and so on are in the folder `programs`."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-slurm-"))
        self.folder.chmod(0o755)
        self.programs = self.folder / "bin"
        self._mark = uuid.uuid4().hex[:6]
        self._network = f"10.{64 + os.getpid() % 64}.{int(self._mark[:2], 16)}"
        self._daemons = []
        try:
            self._make_networks()
            self._write_files()
            self._start_daemons()
            self._wait_for_nodes()
        except BaseException:
            self.stop()
            raise

    def run(self, *words, **options):
        """Runs one of SLURM's programs on the head node and returns its standard output."""
        done = subprocess.run([self.programs / words[0], *map(str, words[1:])], capture_output=True, text=True,
                              check=False, timeout=60, **options)
        if done.returncode != 0:
            raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, *words, **options):
        """The job's id."""
        return self.run("sbatch", "--parsable", *words, **options).strip()

    def job(self, job_id):
        """What `scontrol show job` says, as a dictionary."""
        words = self.run("scontrol", "--oneliner", "show", "job", job_id).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def address(self, node):
        return f"{self._network}.{11 + NODES.index(node)}"

    def log(self):
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-3000:]}"
                         for path in sorted(self.folder.glob("*.log")))

    def stop(self):
        if self.programs.exists() and self._daemons:
            subprocess.run([self.programs / "scancel", "--signal=KILL", "--full", "--user=root"], capture_output=True,
                           check=False, timeout=20)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(5)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        for node in NODES:
            subprocess.run(["ip", "netns", "del", self._space(node)], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", f"br{self._mark}"], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _space(self, node):
        return f"slurm-{self._mark}-{node}"

    def _ip(self, *words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    def _make_networks(self):
        bridge = f"br{self._mark}"
        self._ip("link", "add", bridge, "type", "bridge")
        self._ip("addr", "add", f"{self._network}.1/24", "dev", bridge)
        self._ip("link", "set", bridge, "up")
        for number, node in enumerate(NODES):
            space, outer = self._space(node), f"v{self._mark}{number}"
            self._ip("netns", "add", space)
            self._ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            self._ip("link", "set", outer, "master", bridge, "up")
            self._ip("-n", space, "addr", "add", f"{self.address(node)}/24", "dev", "eth0")
            self._ip("-n", space, "link", "set", "eth0", "up")
            self._ip("-n", space, "link", "set", "lo", "up")

    def _write_files(self):
        (self.folder / "state").mkdir()
        self.programs.mkdir()
        known = [(f"{self._network}.1", "head"), *((self.address(node), node) for node in NODES)]
        (self.folder / "hosts").write_text("127.0.0.1 localhost\n" + "".join(
            f"{address} {name}\n" for address, name in known if name != UNKNOWN_TO_DNS))
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        for number, minor in enumerate((3, 5)):  # /dev/null and /dev/zero: slurmd demands devices
            os.mknod(self.folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, minor))
        (self.folder / "gres.conf").write_text(f"Name=gpu Flags=nvidia_gpu_env File={self.folder}/gpu[0-1]\n")
        lines = "\n".join(f"NodeName={node} NodeAddr={self.address(node)} NodeHostname={node} CPUs=4 RealMemory=4000 "
                          "Gres=gpu:2" for node in NODES)
        (self.folder / "slurm.conf").write_text(CONFIGURATION.format(
            head=f"{self._network}.1", folder=self.folder, port=port, kill_wait=KILL_WAIT, expires=EXPIRES,
            nodes=",".join(NODES), node_lines=lines))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        for name in ("srun", "sbatch", "scancel", "scontrol", "squeue", "sinfo"):
            program = self.programs / name
            program.write_text(f'#!/bin/sh\nexport SLURM_CONF={self.folder}/slurm.conf\nexec unshare -m -u sh -c \''
                               f'hostname head; mount --bind {self.folder}/hosts /etc/hosts; exec "$0" "$@"\' '
                               f'{shutil.which(name)} "$@"\n')
            program.chmod(0o755)

    def _daemon(self, *words):
        environment = {"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "SLURM_CONF": f"{self.folder}/slurm.conf"}
        self._daemons.append(subprocess.Popen(words, env=environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def _start_daemons(self):
        inside = f"mount --bind {self.folder}/hosts /etc/hosts; exec "
        self._daemon("munged", "--foreground", "--force", f"--key-file={self.folder}/munge.key",
                     f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munge.pid",
                     f"--log-file={self.folder}/munged.log", f"--seed-file={self.folder}/munge.seed")
        deadline = time.monotonic() + START
        while not (self.folder / "munge.socket").exists():
            if time.monotonic() > deadline:
                raise AssertionError("munged did not start: " + self.log())
            time.sleep(0.01)
        self._daemon("unshare", "-m", "-u", "sh", "-c", "hostname head; " + inside + "slurmctld -D")
        for node in NODES:
            self._daemon("nsenter", f"--net=/run/netns/{self._space(node)}", "unshare", "-m", "-u", "sh", "-c",
                         f"hostname {node}; {inside}slurmd -D -N {node}")

    def _wait_for_nodes(self):
        deadline = time.monotonic() + START
        while True:
            seen = subprocess.run([self.programs / "sinfo", "--noheader", "-N", "-o", "%T"], capture_output=True,
                                  text=True, check=False).stdout.split()
            if len(seen) == len(NODES) and set(seen) == {"idle"}:
                return
            if time.monotonic() > deadline:
                raise AssertionError(f"the nodes are {seen}:\n" + self.log())
            time.sleep(0.1)
