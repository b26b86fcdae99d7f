"""`trainer completion`: the scripts in the shells that are installed."""

import os
import pathlib
import shutil
import subprocess
import unittest

from support import TRAINER, EndToEnd

COMMANDS = {"config", "convert", "check", "launch", "checkpoint", "generate", "merge", "estimate-memory", "env", "completion"}


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

    def test_fish_completes_commands(self):
        found = self.shell(["fish", "--no-config", "-c", f"{self.script('fish')}; complete -C 'trainer mer'"])
        self.assertIn("merge", found)

    def test_other_shells_are_refused(self):
        run = self.trainer("completion", "tcsh").wait()
        self.assertEqual(run.code, 2)
        self.assertIn("bash", run.err)


if __name__ == "__main__":
    unittest.main()
