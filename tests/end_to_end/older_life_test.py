"""A machine freezes in the middle of a save, another one replaces it, and then the first one continues: nothing it still
does must reach the run's folder."""

import json
import os
import pathlib
import signal
import subprocess
import unittest

from machines_test import RESTARTED, SHARDED, TwoNetworks
from support import TRAINER, snapshot, until

STEP = 10  # of the save in which it stops
# Operations of the save on rank 0: within its own file, and the rename that publishes the folder.
WITHIN_ITS_FILE, RENAMING = 3, 78


def state_of(pid):
    """The process state in /proc: T means stopped."""
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def keeps_open_files(folder):
    """Whether a removed file that is still open keeps its place, under another name: NFS."""
    probe = folder / "probe"
    probe.mkdir()
    with open(probe / "file", "w"):
        os.unlink(probe / "file")
        kept = any(probe.iterdir())
    probe.rmdir()
    return kept


class OlderLife(TwoNetworks):
    def setUp(self):
        super().setUp()
        self.output = self.folder / "output"
        self.config = self.job("output", RESTARTED, SHARDED)

    def start_machine(self, number, fault=""):
        injected = ("env", f"TRAINER_INJECT={fault}") if fault else ()
        before = tuple((*inside, *injected) for inside in self.before)
        return self.start_both(self.config, "10.99.0.1", 29500, before=before, only=number)[0]

    def freeze(self, fault, machine):
        """Two machines train until a rank of `machine` stops in its save; then all processes of that machine are stopped.
        Returns its run, its processes, and the run of the other machine, which has lost it."""
        runs = [self.start_machine(number, fault if number == machine else "") for number in (0, 1)]
        ranks = until(lambda: len(runs[0].ranks()) == 4 and runs[0].ranks())  # of both
        rank = int(fault.split("rank=")[1].split(",")[0])
        until(lambda: state_of(ranks[rank]) == "T" or any(run.ended() for run in runs))
        frozen = [runs[machine].pid, ranks[2 * machine], ranks[2 * machine + 1]]
        for pid in frozen:
            os.kill(pid, signal.SIGSTOP)
        self.partial, = self.output.glob(f".checkpoint-{STEP}.*.partial")
        until(lambda: "restart 1 of 3" in runs[1 - machine].err)
        return runs[machine], frozen, runs[1 - machine]

    def wake(self, frozen):
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)

    def replace_host(self):
        """Another machine gets machine 0's address and starts. A file server drops the locks of a machine that doesn't
        respond; here the lock file is removed instead."""
        (self.output / ".lock").unlink()
        other, = self.make_spaces("other")
        self.ip("-n", self.spaces[0], "link", "del", self.cables[0])
        self.connect(other, self.spaces[1])
        self.before = (("ip", "netns", "exec", other), self.before[1])
        return self.start_machine(0)

    def check_as_undisturbed(self):
        self.launch(self.job("expected", RESTARTED, SHARDED))
        self.assert_same_run(self.output, self.folder / "expected")
        for folder in ("output", "expected"):
            verified = subprocess.run([TRAINER, "checkpoint", "verify", self.folder / folder], capture_output=True,
                                      text=True)
            self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)
        self.assertEqual(*(sorted(path.name for path in (self.folder / folder).glob("checkpoint-*"))
                           for folder in ("output", "expected")))
        self.assertEqual(os.readlink(self.output / "latest"), os.readlink(self.folder / "expected/latest"))
        left = list(self.output.glob(".checkpoint-*"))
        if keeps_open_files(self.folder):  # so the folder of one stays, without its files, until a later cleanup
            left = [path for path in left if path.suffix != ".removing" or any(path.iterdir())]
        self.assertEqual(left, [])
        self.assertEqual(json.loads((self.output / "outcome.json").read_text())["code"], 0)

    def leader_epochs(self):
        return {int(path.parent.name.split("-")[1]): json.loads(path.read_text())["leader_epoch"]
                for path in self.output.glob("checkpoint-*/manifest.json")}

    def content(self):
        on_nfs = keeps_open_files(self.folder)
        return {name: digest for name, digest in snapshot(self.output).items()
                if not name.startswith("logs/") and not (on_nfs and pathlib.Path(name).name.startswith(".nfs"))}

    def check_it_was_told(self, old):
        self.assertEqual(old.wait().code, 4, old.err)
        self.assertRegex(old.err, r"output folder taken over: .*\n  by process \d+ on ")

    def test_the_leader_wakes_while_the_next_attempt_trains(self):
        old, frozen, other = self.freeze(f"stop:rank=0,step={STEP},file={RENAMING}", 0)
        self.assertTrue((self.partial / "manifest.json").exists())  # complete except for the rename
        new = self.replace_host()
        until(lambda: "resuming from" in new.out + new.err and not self.partial.exists())
        self.wake(frozen)
        self.check_it_was_told(old)
        self.finish([new, other], 0)
        self.check_as_undisturbed()
        epochs = self.leader_epochs()
        self.assertEqual({step: epoch for step, epoch in epochs.items() if step < STEP}, {5: 1})
        self.assertEqual({epoch for step, epoch in epochs.items() if step >= STEP}, {2}, "although the lock was removed")
        self.assertEqual(json.loads((self.output / "outcome.json").read_text())["leader_epoch"], 2)

    def test_the_leader_wakes_after_the_run_has_ended(self):
        old, frozen, other = self.freeze(f"stop:rank=0,step={STEP},file={WITHIN_ITS_FILE}", 0)
        new = self.replace_host()
        self.finish([new, other], 0)
        before = self.content()
        self.wake(frozen)
        self.check_it_was_told(old)
        self.assertEqual(self.content(), before)
        self.check_as_undisturbed()

    def test_a_follower_wakes_while_the_next_attempt_trains(self):
        old, frozen, other = self.freeze(f"stop:rank=2,step={STEP},file={WITHIN_ITS_FILE}", 1)
        new = self.start_machine(1)
        until(lambda: "resuming from" in other.out + other.err)
        self.wake(frozen)
        self.finish([new, other], 0)
        self.check_as_undisturbed()
        old.kill()  # it looks for the leader


if __name__ == "__main__":
    unittest.main()
