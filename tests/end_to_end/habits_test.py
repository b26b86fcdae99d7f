"""The ways in which people and schedulers end a run: whatever happens to its screen, and however many signals one
request to stop arrives as, the run saves, ends with the contract's exit code, and can be resumed."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
import time
import unittest

from machines_test import Machines, free_port
from support import MARK, TRAINER, last_step, processes, until

INTERRUPTED, STOPPED = 130, 143
RECORD = pathlib.Path(__file__).with_name("record_status.py")
# Large enough for a signal to arrive during a save.
MODEL = {"model": {"config": {"model_type": "t5", "vocab_size": 400, "d_model": 192, "d_kv": 48, "d_ff": 768,
                              "num_layers": 2, "num_heads": 4, "dropout_rate": 0.1}}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "data": {"validation": None},
        "checkpoint": {"save_steps": 0}}
RANKS = {"distributed_type": "MULTI_CPU", "num_processes": 2}


class Terminal:
    """An interactive shell on its own terminal."""

    def __init__(self, folder):
        self.pid, self._screen = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], {**os.environ, "TERM": "xterm"})
        self._reads = True
        self.text = b""  # what it has shown
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        while self._reads:
            try:
                self.text += os.read(self._screen, 65536)
            except OSError:
                return

    def type(self, text):
        os.write(self._screen, text.encode())

    def close(self):
        """Like closing a window: the processes in it get SIGHUP."""
        self._reads = False
        try:
            self.type("\n")  # wakes the reader
            self._reader.join(1)
            os.close(self._screen)
        except OSError:
            pass


class Habits(Machines):
    def setUp(self):
        super().setUp()
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs, and inherited
        self.output = self.folder / "output"
        self.status = self.folder / "status"
        self.config = self.job("output", MODEL, LONG, RANKS)
        self.launched = f"env {MARK}={self.mark} {TRAINER} launch --config_file {self.config}"
        self.recorded = f"{sys.executable} {RECORD} {self.status} {self.launched}"

    # Shared by all tests.

    def until_it_trains(self, output=None):
        until(lambda: last_step(output or self.output) >= 3)

    def launchers(self):
        """Process ids of the programs called trainer."""
        def name(pid):
            try:
                return os.path.basename(os.readlink(f"/proc/{pid}/exe"))
            except OSError:
                return ""
        return [pid for pid in processes(self.mark) if name(pid) == "trainer"]

    def ended_with(self):
        """The launcher's exit code; -N: killed by signal N."""
        return int(until(lambda: self.status.exists() and self.status.read_text()))

    def check_saved(self, code, expected, output=None):
        output = output or self.output
        self.assertEqual(code, expected)
        step = last_step(output)
        self.assertTrue((output / f"checkpoint-{step}/manifest.json").exists(), f"nothing saved at step {step}")
        outcome = json.loads((output / "outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["step"]), (expected, step))
        self.assert_nothing_runs()
        resumed = self.launch(self.config, "--set", f"training.max_steps={step + 2}", "--set", f"output_dir={output}")
        self.assertIn(f"checkpoint-{step}", resumed.out + resumed.err)
        self.assertEqual(last_step(output), step + 2)

    def end(self, process):
        self._end_processes()
        process.wait()

    def in_terminal(self, command):
        terminal = Terminal(self.folder)
        self.addCleanup(terminal.close)
        terminal.type(command + "\n")
        self.until_it_trains()
        return terminal

    def in_shell(self, command):
        """A shell in its own process group, like that of a script or a scheduler."""
        shell = subprocess.Popen(["bash", "-c", command], cwd=self.folder,
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                 start_new_session=True)
        self.addCleanup(self.end, shell)
        self.until_it_trains()
        return shell

    def stop_launcher(self, *signals, seconds=0.0):
        (launcher,) = self.launchers()
        for number, each in enumerate(signals):
            if number > 0:
                time.sleep(seconds)
            try:
                os.kill(launcher, each)
            except ProcessLookupError:
                pass
        return self.ended_with()

    # On a terminal.

    def test_ctrl_c(self):
        terminal = self.in_terminal(self.recorded)
        terminal.type("\x03")
        self.check_saved(self.ended_with(), INTERRUPTED)
        # Below the bar, which may have been drawn over the ^C by then.
        until(lambda: b"\r\ntrainer: SIGINT: saving" in terminal.text)

    def test_ctrl_c_with_tee(self):
        self.in_terminal(f"{self.recorded} 2>&1 | tee log").type("\x03")
        self.check_saved(self.ended_with(), INTERRUPTED)

    def test_terminal_is_closed(self):
        self.in_terminal(self.recorded).close()
        self.check_saved(self.ended_with(), STOPPED)

    def test_terminal_is_closed_with_tee(self):
        self.in_terminal(f"{self.recorded} 2>&1 | tee log").close()
        self.check_saved(self.ended_with(), STOPPED)

    def test_terminal_is_held(self):
        """Ctrl-S: the terminal accepts no more output."""
        terminal = self.in_terminal(self.recorded)
        terminal.type("\x13")
        time.sleep(0.5)
        self.check_saved(self.stop_launcher(signal.SIGTERM), STOPPED)
        terminal.type("\x11")

    # On pipes and files.

    def test_head(self):
        self.in_shell(f"{self.recorded} 2>&1 | head -5")
        until(lambda: last_step(self.output) >= 12)  # head ended long ago
        self.check_saved(self.stop_launcher(signal.SIGTERM), STOPPED)

    def test_connection_is_lost(self):
        """Like sshd without a terminal: the pipes close, and SIGHUP arrives."""
        run = subprocess.Popen(self.recorded.split(), cwd=self.folder, stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(self.end, run)
        self.until_it_trains()
        for end in (run.stdin, run.stdout, run.stderr):
            end.close()
        self.check_saved(self.stop_launcher(signal.SIGHUP), STOPPED)

    def test_full_device(self):
        self.in_shell(f"{self.recorded} > /dev/full 2>&1")
        self.check_saved(self.stop_launcher(signal.SIGTERM), STOPPED)

    def test_closed_output(self):
        self.in_shell(f"{self.recorded} <&- >&- 2>&-")
        self.check_saved(self.stop_launcher(signal.SIGTERM), STOPPED)

    def test_closed_errors(self):
        self.in_shell(f"{self.recorded} > log 2>&-")
        self.check_saved(self.stop_launcher(signal.SIGINT), INTERRUPTED)

    # One request, many signals.

    def check_two(self, milliseconds):
        self.in_shell(self.recorded)
        self.check_saved(self.stop_launcher(signal.SIGTERM, signal.SIGTERM, seconds=milliseconds / 1000), STOPPED)

    def test_two_signals_10_ms_apart(self):
        self.check_two(10)

    def test_two_signals_20_ms_apart(self):
        self.check_two(20)

    def test_two_signals_50_ms_apart(self):
        self.check_two(50)

    def check_two_machines(self, milliseconds):
        self.config = self.job("output", MODEL, LONG, {**RANKS, "num_processes": 4})
        runs = self.start_both(self.config, "127.0.0.1", free_port())
        self.until_it_trains()
        for run in runs:
            run.kill_with(signal.SIGTERM)
            time.sleep(milliseconds / 1000)
        codes = {run.wait().code for run in runs}
        self.config = self.job("output", MODEL, LONG, RANKS)
        self.check_saved(codes.pop(), STOPPED)
        self.assertEqual(codes, set())

    def test_a_signal_to_each_machine_10_ms_apart(self):
        self.check_two_machines(10)

    def test_a_signal_to_each_machine_20_ms_apart(self):
        self.check_two_machines(20)

    def test_a_signal_to_each_machine_50_ms_apart(self):
        self.check_two_machines(50)

    def test_a_signal_to_each_task(self):
        """As started by srun, mpirun and torchrun: one launcher per rank, of which the first runs all ranks."""
        job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        runs = []
        for rank in ("0", "1"):
            variables = {**job, "RANK": rank, "LOCAL_RANK": rank}
            before = ("env", *(f"{name}={value}" for name, value in variables.items()))
            runs.append(self.start(self.config, before=before))
        self.until_it_trains()
        for run in runs:
            run.kill_with(signal.SIGTERM)
            time.sleep(0.01)
        codes = {run.wait().code for run in runs}
        self.check_saved(codes.pop(), STOPPED)
        self.assertEqual(codes, set())

    def test_a_signal_to_every_process(self):
        """As systemd and Slurm end a control group: the ranks get the signal too."""
        self.in_shell(self.recorded)
        (launcher,) = self.launchers()
        ranks = [pid for pid, environment in processes(self.mark).items() if "LOCAL_RANK" in environment]
        self.assertEqual(len(ranks), 2)
        for pid in (*ranks, launcher):
            os.kill(pid, signal.SIGTERM)
        self.check_saved(self.ended_with(), STOPPED)

    def test_process_group(self):
        shell = self.in_shell(f"{self.recorded} 2>&1 | tee log")
        os.killpg(shell.pid, signal.SIGTERM)
        self.check_saved(self.ended_with(), STOPPED)

    def test_timeout(self):
        """`timeout` signals its child, and then the child's process group."""
        command = f"timeout --preserve-status 6 {self.launched}"  # on a busy machine, training begins after 3 s
        run = subprocess.Popen(command.split(), cwd=self.folder, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.check_saved(run.wait(60), STOPPED)

    def test_escalation(self):
        """The end of a session: SIGHUP from the terminal, the shell and the session manager, which then sends SIGTERM."""
        self.in_shell(self.recorded)
        signals = (signal.SIGHUP, signal.SIGHUP, signal.SIGHUP, signal.SIGTERM, signal.SIGCONT)
        self.check_saved(self.stop_launcher(*signals, seconds=0.005), STOPPED)

    def test_warning_first(self):
        """Like Slurm: SIGUSR1 some time before the end, then SIGTERM."""
        self.in_shell(self.recorded)
        self.check_saved(self.stop_launcher(signal.SIGUSR1, signal.SIGTERM, seconds=0.03), STOPPED)


if __name__ == "__main__":
    unittest.main()
