"""The documentation: its commands run, or are at least spelled as the program spells them; its links lead somewhere."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import readers_files
from support import PATIENCE, REPOSITORY, TRAINER

# Pages whose commands run here as they are, one after the other, in a copy of the repository's examples.
RUN = ("docs/start_here.md", "docs/recipes.md")
# Pages whose commands run in a folder that has what they speak of: readers_files.py.
RUN_WITH_FILES = ("docs/evaluating.md", "docs/generating.md", "docs/merging.md", "docs/exporting.md", "docs/profiling.md",
                  "docs/data.md", "docs/converting.md", "docs/memory.md", "docs/checkpoints.md", "docs/monitoring.md")
SHORT = "--set training.max_steps=2 --set logging.logging_steps=1"
# Commands on those pages that don't run here: their beginning, and why.
NOT_RUN = {
    "./tools/setup.sh": "installs packages of the system",
    "cmake ": "builds the program that is tested",
    "PATH=": "the test sets it",
    "trainer config --config_file my.yaml": "asks questions; wizard_test.py answers them",
    "trainer generate models/qwen --adapter": "a chat on the terminal; generate_test.py has it",
    "trainer report runs/t5 --serve": "ends with Ctrl-C; report_test.py has it",
    "trainer estimate-memory meta-llama": "the model must be in the Hub's cache; estimate_memory_test.py has one",
    "trainer checkpoint now": "needs a run that trains; save_now_test.py has it",
    "trainer checkpoint prune runs/t5 --keep 2 --best loss [": "the brackets are for the reader; checkpoint_test.py has it",
    "trainer checkpoint verify runs/t5 --key": "needs a signed run; signature_test.py has it",
    "trainer checkpoint export runs/t5/latest out --key": "needs a signed run; signature_test.py has it",
    "openssl pkeyutl": "needs a signed run; signature_test.py has it",
    "trainer selftest": "takes minutes; selftest_test.py has it",
}
# On the other pages, files, machines and models are the reader's: only the spelling of commands and flags is tested.
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def pages():
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def commands(page):
    """The command lines of a page's blocks, without comments."""
    found = []
    for block in BLOCK.findall(page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"(^|\s)#.*", "", line).strip()
            if line:
                found.append(line)
    return found


def anchors(page):
    """The targets of links into a page, as GitHub makes them of headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    made = {re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).replace(" ", "-") for heading in headings}
    return made | set(re.findall(r'<a id="([^"]+)">', text))


@functools.lru_cache(maxsize=None)
def help_of(*words):
    """The help of a command, or "" if there is no such command."""
    done = subprocess.run([TRAINER, *words, "--help"], capture_output=True, text=True, check=False, timeout=PATIENCE,
                          env={**os.environ, "COLUMNS": "10000"})
    return done.stdout if done.returncode == 0 else ""


class Docs(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not TRAINER:
            raise unittest.SkipTest("TRAINER_BIN is not set: the path of the built `trainer`")

    def new_folder(self):
        """With the repository's examples, and an environment for programs in it."""
        folder = pathlib.Path(tempfile.mkdtemp(prefix="trainer-docs-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        for part in ("configs", "data/examples"):
            shutil.copytree(REPOSITORY / part, folder / part)
        environment = {**os.environ, "PATH": f"{pathlib.Path(TRAINER).parent}:{os.environ['PATH']}",
                       "XDG_CACHE_HOME": str(folder / "cache"), "HF_HUB_CACHE": str(folder / "hub")}
        return folder, environment

    def run_commands_of(self, name, folder, environment):
        """Returns how many there were."""
        ran = 0
        for command in commands(REPOSITORY / name):
            if any(command.startswith(start) for start in NOT_RUN):
                continue
            with self.subTest(name, command=command):
                short = f"{command} {SHORT}" if command.startswith("trainer launch") else command
                done = subprocess.run(["bash", "-c", short], cwd=folder, env=environment, capture_output=True,
                                      text=True, check=False, timeout=2 * PATIENCE, stdin=subprocess.DEVNULL)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                ran += 1
        return ran

    def test_commands_run(self):
        for name in RUN:
            self.assertGreater(self.run_commands_of(name, *self.new_folder()), 5, name)

    def test_images_that_a_page_writes_are_learned(self):
        [program] = re.findall(r"^```python\n(.*?)^```", (REPOSITORY / "docs/recipes.md").read_text(), re.MULTILINE | re.DOTALL)
        folder, environment = self.new_folder()
        subprocess.run([sys.executable, "-c", program], cwd=folder, check=True, timeout=PATIENCE)
        command = [TRAINER, "launch", "--config_file", "configs/mnist_ddp.yaml", "--set", "training.num_train_epochs=20"]
        done = subprocess.run(command, cwd=folder, env={**environment, "MNIST": str(folder / "images")}, capture_output=True,
                              text=True, check=False, timeout=PATIENCE, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = [json.loads(line) for line in (folder / "runs/mnist/metrics.jsonl").read_text().splitlines()]
        self.assertGreater([line["eval_accuracy"] for line in lines if "eval_accuracy" in line][-1], 0.95)

    def test_commands_run_on_the_readers_files(self):
        template, environment = self.new_folder()
        readers_files.make(template, environment)
        for name in RUN_WITH_FILES:
            folder = template.with_name(template.name + "-" + pathlib.Path(name).stem)
            self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
            shutil.copytree(template, folder, symlinks=True)  # a page's commands may use what the one before wrote
            self.assertGreater(self.run_commands_of(name, folder, environment), 1, name)

    def test_commands_are_spelled_as_in_the_help(self):
        checked = 0
        for page in pages():
            for line in commands(page):
                for part in re.split(r"\s(?:\|\|?|&&|;)\s", line):
                    words = re.findall(r"\S+", part)
                    words = words[words.index("trainer"):] if "trainer" in words else []
                    if len(words) < 2:
                        continue
                    with self.subTest(page.name, command=part):
                        self.check_spelling(words[1:])
                        checked += 1
        self.assertGreater(checked, 80)

    def check_spelling(self, words):
        if words[0].startswith("-"):
            return self.assertIn(words[0], help_of())
        text = help_of(words[0])
        self.assertTrue(text, f"there is no command {words[0]}")
        if len(words) > 1 and re.fullmatch(r"[a-z_]+", words[1]):
            text += help_of(*words[:2])
        known = set(re.findall(r"--?[\w-]+", text))
        for word in words[1:]:
            flag = word.split("=")[0].strip("[]'\"")
            if re.fullmatch(r"--?[A-Za-z][\w-]*", flag):
                self.assertTrue({flag, "--" + flag[2:].replace("-", "_")} & known, f"{words[0]} has no flag {flag}")

    def test_links_lead_somewhere(self):
        for page in [*pages(), REPOSITORY / "configs/README.md"]:
            for link in LINK.findall(page.read_text()):
                if re.match(r"[a-z]+:", link):
                    continue
                with self.subTest(page.name, link=link):
                    path, _, anchor = link.partition("#")
                    target = page.parent / path if path else page
                    self.assertTrue(target.exists(), f"there is no {target}")
                    if anchor:
                        self.assertIn(anchor, anchors(target))

    def test_every_page_is_in_the_index(self):
        index = (REPOSITORY / "docs/README.md").read_text()
        for page in (REPOSITORY / "docs").glob("*.md"):
            if page.name != "README.md":
                self.assertIn(f"({page.name})", index)

    def test_every_example_is_in_a_page(self):
        text = "".join(page.read_text() for page in pages())
        for file in (REPOSITORY / "configs").glob("*.yaml"):
            self.assertIn(file.name, text)

    def test_other_programs_keys_are_up_to_date(self):
        page = (REPOSITORY / "docs/other_programs_keys.md").read_text()
        tables = subprocess.run([TRAINER, "config", "foreign"], capture_output=True, text=True, check=True).stdout
        self.assertTrue(page.endswith(tables), "replace the tables at the end by the output of: trainer config foreign")


if __name__ == "__main__":
    unittest.main()
