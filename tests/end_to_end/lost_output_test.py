"""Every command of the program, with a standard output or an error stream that can't be written: full, closed, or a pipe
that nobody reads."""

import os
import re
import signal
import subprocess
import unittest

from support import PATIENCE, TRAINER, EndToEnd

FULL, CLOSED, UNREAD = "> /dev/full", "> &-", "> an unread pipe"


def run(words, folder, stream=None, how=None):
    """Runs the program with standard output (1) or standard error (2) lost. Returns its exit code and the other one."""
    ends = {1: subprocess.PIPE, 2: subprocess.PIPE}
    shell = ["sh", "-c", 'exec "$0" "$@"' + (f" {stream}>&-" if how == CLOSED else "")]
    opened = None
    if how == FULL:
        opened = ends[stream] = os.open("/dev/full", os.O_WRONLY)
    elif how == UNREAD:
        read, opened = os.pipe()
        os.close(read)
        ends[stream] = opened
    with subprocess.Popen([*shell, TRAINER, *map(str, words)], cwd=folder, stdin=subprocess.DEVNULL, stdout=ends[1],
                          stderr=ends[2]) as process:
        if opened is not None:
            os.close(opened)
        out, err = process.communicate(timeout=PATIENCE)
    return process.returncode, (out or b"").decode(), (err or b"").decode()


class LostOutput(EndToEnd):
    def commands(self):
        """Every command with --help, which all print in the same way, so of two; without arguments; and, of those that
        print much, with good ones."""
        listed = re.findall(r"^  ([a-z][a-z-]*)  ", run(["--help"], self.folder)[1], re.MULTILINE)
        self.assertGreater(len(listed), 15)
        job = self.job("output", {"training": {"max_steps": 1}})
        model = self.base_model()
        yield ["--help"]
        yield ["--version"]
        yield ["no-such-command"]
        for name in listed:
            if name in ("launch", "cache"):  # of `trainer` itself, and of another program that it executes
                yield [name, "--help"]
            if name != "selftest":  # it has no argument that it needs, and takes minutes
                yield [name]
        yield from (["check", "--config_file", job], ["check", "--config_file", job, "--json"], ["config", "schema"],
                    ["config", "show", "--config_file", job], ["env"], ["completion", "bash"], ["man", "launch"],
                    ["explain", "seed"], ["cache", "list"], ["estimate-memory", model], ["report", model],
                    ["checkpoint", "list", model], ["checkpoint", "verify", model], ["generate", model, "--prompt", "a"],
                    ["eval", "--config_file", job, "--model", model], ["tokenize", "--tokenizer", self.tokenizer])

    def test_ends_as_the_contract_says(self):
        tried = 0
        for words in self.commands():
            code, out, err = run(words, self.folder)
            self.assertGreaterEqual(code, 0, err)
            for stream in (1, 2):
                for how in (FULL, CLOSED, UNREAD):
                    with self.subTest(command=" ".join(map(str, words)), lost=f"{stream}{how}"):
                        found, _, said = run(words, self.folder, stream, how)
                        lost = stream == 1 and out != ""
                        wanted = {code} if not lost else {-signal.SIGPIPE} if how == UNREAD else {code or 4, 4}
                        if lost and words[0] == "eval":
                            wanted = {4}  # a rank prints it, and ranks outlive SIGPIPE
                        self.assertIn(found, wanted, said)
                        self.assertNotEqual(found, 1)
                        tried += 1
        self.assertGreater(tried, 200)


if __name__ == "__main__":
    unittest.main()
