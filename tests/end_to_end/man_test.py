"""`trainer man`: pages that man renders without a warning, and what `cmake --install` does with them."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from support import TRAINER, EndToEnd


def rendered(page):
    """The page as man shows it, 80 columns wide, and its warnings."""
    shown = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", page], capture_output=True, text=True,
                           env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8", "MAN_KEEP_FORMATTING": "", "GROFF_NO_SGR": "1"})
    return re.sub(".\b", "", shown.stdout), shown.stderr


@unittest.skipIf(shutil.which("man") is None, "man is not installed")
class Man(EndToEnd):
    def pages(self):
        folder = self.folder / "man1"
        run = self.trainer("man", "--all", folder).wait()
        self.assertEqual(run.code, 0, run.err)
        return {page.name: page for page in folder.iterdir()}

    def test_every_command_has_a_page_without_warnings(self):
        pages = self.pages()
        commands = re.findall(r"^  ([a-z][a-z-]*)  ", self.trainer("--help").wait().out, re.MULTILINE)
        self.assertGreater(len(commands), 15)
        wanted = {"trainer.1", "trainer-checkpoint-list.1", "trainer-tokenize-train.1", "trainer-cache-prune.1",
                  *(f"trainer-{name}.1" for name in commands)}
        self.assertLessEqual(wanted, set(pages))
        for name, page in pages.items():
            text, warnings = rendered(page)
            self.assertEqual(warnings, "", name)
            for section in ("NAME", "SYNOPSIS", "SEE ALSO"):
                self.assertIn(f"\n{section}\n", text, name)

    def test_a_page_has_every_flag_of_the_help(self):
        for name, page in self.pages().items():
            words = page.stem.split("-", 1)[1:]  # "checkpoint-list", "estimate-memory"
            words = words if words in ([], ["estimate-memory"]) else words[0].split("-")
            flags = set(re.findall(r"--[a-z]\w+", self.trainer(*words, "--help").wait().out))
            self.assertLessEqual(flags, set(re.findall(r"--[a-z]\w+", rendered(page)[0])), name)

    def test_a_page_is_printed_as_roff(self):
        run = self.trainer("man", "checkpoint", "list").wait()
        self.assertEqual(run.code, 0, run.err)
        self.assertTrue(run.out.startswith(".TH TRAINER-CHECKPOINT-LIST 1"), run.out[:80])
        self.assertIn(".SH OPTIONS", run.out)
        self.assertIn("EXIT STATUS", self.trainer("man").wait().out)

    def test_mistakes_are_explained(self):
        run = self.trainer("man", "lanch").wait()
        self.assertEqual(run.code, 2)
        self.assertIn("did you mean 'launch'?", run.err)
        self.assertEqual(self.trainer("man", "merge", "--all", self.folder / "x").wait().code, 2)
        self.assertFalse((self.folder / "x").exists())

    def test_installing_puts_pages_and_completions_in_place(self):
        build = pathlib.Path(TRAINER).resolve().parents[1]
        if shutil.which("cmake") is None or not (build / "cmake_install.cmake").exists():
            self.skipTest("the program is not in a build folder")
        place = self.folder / "installed"
        subprocess.run(["cmake", "--install", build, "--prefix", place, "--component", "programs"], check=True,
                       capture_output=True)
        share = place / "share"
        self.assertTrue((share / "man/man1/trainer-merge.1").exists())
        for file in ("bash-completion/completions/trainer", "zsh/site-functions/_trainer",
                     "fish/vendor_completions.d/trainer.fish"):
            self.assertIn("trainer", (share / file).read_text(), file)


if __name__ == "__main__":
    unittest.main()
