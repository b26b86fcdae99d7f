"""`trainer completion`: the scripts in the shells that are installed."""

import os
import pathlib
import pty
import select
import shutil
import subprocess
import time
import unittest

from support import PATIENCE, TRAINER, EndToEnd

COMMANDS = {"config", "convert", "check", "launch", "checkpoint", "generate", "merge", "estimate-memory", "env", "completion"}


class Zsh:
    """An interactive zsh on a pseudo-terminal of its own, which reads nobody's configuration."""

    def __init__(self, folder, environment):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**environment, "TERM": "dumb", "PS1": "% ", "HOME": str(folder)})

    def type(self, keys, until):
        """Types the keys, and returns what appears once it has the text."""
        os.write(self.fd, keys.encode())
        seen, deadline = "", time.monotonic() + PATIENCE
        while until not in seen:
            if not select.select([self.fd], [], [], max(0, deadline - time.monotonic()))[0]:
                raise AssertionError(f"{keys!r} doesn't show {until!r}: {seen!r}")
            seen += os.read(self.fd, 65536).decode(errors="replace")
        return seen

    def end(self):
        os.close(self.fd)  # hangs up
        os.waitpid(self.pid, 0)


class Completion(EndToEnd):
    def script(self, shell):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        return subprocess.run([TRAINER, "completion", shell], check=True, capture_output=True, text=True).stdout

    def shell(self, command):
        folder = pathlib.Path(TRAINER).parent
        return subprocess.run(command, capture_output=True, text=True, check=True,
                              env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}).stdout.split()

    def completed(self, *words):
        """What bash offers for the last of the words."""
        line = " ".join(f"'{word}'" for word in words)
        return set(self.shell(["bash", "-c", f"{self.script('bash')}\nCOMP_WORDS=({line}); "
                                             f"COMP_CWORD={len(words) - 1}; _trainer; printf '%s\\n' \"${{COMPREPLY[@]}}\""]))

    def test_bash_completes_commands_and_flags(self):
        self.assertLessEqual(COMMANDS, self.completed("trainer", ""))
        self.assertEqual(self.completed("trainer", "mer"), {"merge"})
        self.assertEqual(self.completed("trainer", "estim"), {"estimate-memory"})
        self.assertLessEqual({"--base", "--dtype", "--verify"}, self.completed("trainer", "merge", "--"))
        self.assertEqual(self.completed("trainer", "generate", "m", "--top"), {"--top_k", "--top_p"})
        self.assertLessEqual({"list", "verify", "export", "now", "prune"}, self.completed("trainer", "checkpoint", ""))

    def test_zsh_reads_the_script(self):
        self.shell(["zsh", "-c", f"autoload -Uz compinit; compinit -u -D; {self.script('zsh')}"])

    def test_zsh_completes_commands_and_flags(self):
        self.write("completion.zsh", self.script("zsh"))
        folder = pathlib.Path(TRAINER).parent
        zsh = Zsh(self.folder, {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.addCleanup(zsh.end)
        zsh.type("autoload -Uz compinit && compinit -u -D && source completion.zsh && echo rea''dy\n", "ready")
        forget = "\x15"  # Ctrl-U: the line
        zsh.type("trainer mer\t", "merge")
        zsh.type(f"{forget}trainer estim\t", "estimate-memory")
        zsh.type(f"{forget}trainer merge --ver\t", "--verify")
        zsh.type(f"{forget}trainer checkpoint ver\t", "verify")
        zsh.type(f"{forget}trainer man repl\t", "replay")
        self.write("only-file.yaml", "")
        zsh.type(f"{forget}trainer launch only\t", "only-file.yaml")

    def test_fish_completes_commands_and_flags(self):
        script = self.script("fish")
        for line, found in (("trainer mer", "merge"), ("trainer merge --ver", "--verify"), ("trainer checkpoint ver", "verify"),
                            ("trainer man repl", "replay")):
            self.assertIn(found, self.shell(["fish", "--no-config", "-c", f"{script}; complete -C '{line}'"]), line)

    def test_other_shells_are_refused(self):
        run = self.trainer("completion", "tcsh").wait()
        self.assertEqual(run.code, 2)
        self.assertIn("bash", run.err)


if __name__ == "__main__":
    unittest.main()
