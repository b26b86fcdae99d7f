#!/usr/bin/env python3
"""Checks the wording of comments, messages and documentation: check_words.py [ROOT].

Prints file:line, the phrase and its replacement for each hit; exit status 1 if there is any. WORDS lists only spellings
and phrases that are nearly never right. Text quoted from elsewhere (option names, keys of foreign formats) goes into
ALLOWED. The list of files comes from git; exit status 77 if ROOT isn't a git checkout.
"""

import itertools
import pathlib
import re
import subprocess
import sys

# (regular expression, what to write instead). Matching ignores case. A space also matches line breaks with their
# comment or quotation marks. Groups are (a|b) or (a|b)?, not nested, so that expansions() can read them.
WORDS = [
    # American spelling, also within identifiers.
    (r"(behavi|neighb|flav|fav|hon|lab)our", "…or"),
    (r"colour", "color"),
    (r"(optim|normal|initial|recogn|serial|synchron|quant|token|organ|summar|minim|maxim|general|special|final|util|"
     r"custom|categor|random|parallel|vector|material|real|visual|local|capital|priorit)is(e|ing|a)", "…iz…"),
    (r"\banalys(e|ed|ing)\b", "analyze"),
    (r"(label|model|signal|cancel|travel|total|fuel|level)l(ed|ing|er)\b", "a single l"),
    (r"learnt", "learned"),
    (r"spelt", "spelled"),
    (r"licence", "license"),
    (r"centre", "center"),
    (r"\bgrey", "gray"),
    (r"\bdefence\b", "defense"),
    (r"\bartefact", "artifact"),
    (r"\bprogramme(s)?\b", "program"),
    (r"\bjudgement", "judgment"),
    (r"\bfulfil\b", "fulfill"),
    (r"\b(whilst|amongst)\b", "while, among"),
    (r"\btowards\b", "toward"),
    # Turns of phrase.
    (r"\banew\b", "again, from scratch"),
    (r"\bbelong(s|ed|ing)? into\b", "belongs in"),
    (r"\bone behind the other\b", "back to back"),
    (r"\band (its|their|the) like\b", "the … family, similar"),
    (r"\bthe like of\b", "the equivalent of"),
    (r"\b(say|says|said|saying) so\b", "reports it, logs it"),
    (r"\bhas it that\b", "says that"),
    (r"\bready in a moment\b", "starts in under a second"),
    (r"\bnobody waits for\b", "no cycle of waits"),
    (r"\bwhatever it is\b", "name the thing"),
    (r"\bwhole or not there\b", "written atomically"),
    (r"\b(stand|stands|stood|standing) still\b", "is stuck, hangs, is paused"),
    (r"\b(come|comes|came|coming) to (its|their|an) end\b", "ends"),
    (r"\b(tell|tells|told|telling) apart\b", "distinguish"),
    (r"\bbecome(s)? of\b", "what happens to"),
    (r"\b(make|makes|made) way\b", "say the thing"),
    (r"\bnothing (had )?happened to\b", "an undisturbed run"),
    (r"\bshare(d)? out\b", "divide, distribute"),
    (r"\bas ever\b", "as always"),
    (r"\bby turns\b", "alternately, in turn"),
    (r"\ban own\b", "its own, a separate"),
    (r"\b(thereof|whereof|hitherto|henceforth|forthwith)\b", "say it plainly"),
    (r"\[Note ", "Note [Name]"),
]

# (path or its beginning, phrase or its beginning, reason). Phrases are in lower case, with single spaces.
ALLOWED = [
    ("tests/config/wizard_accelerate_test.cpp", "customise", "dynamo_customised.yaml, the name of a recorded file"),
    ("tests/end_to_end/slurm_test.py", "cancelled", "a state of SLURM's jobs"),
    ("tests/golden/README.md", "learnt", "a key of the golden indices.json"),
    ("tests/golden/megatron/make_megatron.py", "learnt", "a key of the golden indices.json"),
    ("tests/golden/megatron/make_megatron.py", "normalise", "a key of the golden picks.json"),
    ("tests/megatron/gpt_dataset_test.cpp", "learnt", "a key of the golden indices.json"),
    ("tests/megatron/gpt_dataset_test.cpp", "normalise", "a key of the golden picks.json"),
]

SUFFIXES = (".cpp", ".h", ".py", ".sh", ".md", ".yaml", ".cmake")
NAMES = ("CMakeLists.txt", "Dockerfile")
# Data from elsewhere, and this file. In tests/golden, only scripts and pages are checked.
DATA = ("data/examples/", "tests/fuzz/corpus/", "tests/config/accelerate/", "tests/data/", "tools/check_words.py")
BREAK = r'[\s/#*"]+'
MARKS = str.maketrans(dict.fromkeys('/#*"', " "))


def files(root):
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        print(f"skipped: {root} is not a git checkout: {listed.stderr.strip()}")
        sys.exit(77)
    for name in listed.stdout.split("\0"):
        if not name.endswith(SUFFIXES) and name.rpartition("/")[2] not in NAMES:
            continue
        if name.startswith(DATA) or (name.startswith("tests/golden/") and not name.endswith((".py", ".md"))):
            continue
        if (root / name).is_file():  # deleted files are listed until the commit
            yield name


def allowed(name, phrase):
    return any(name.startswith(path) and phrase.startswith(quoted) for path, quoted, _ in ALLOWED)


def flat(text):
    """`text` without line breaks and the marks around them. Finding a plain string in it is fast."""
    return " ".join(text.translate(MARKS).split())


def expansions(wrong):
    """The plain strings that an expression stands for."""
    parts = re.findall(r"\(([^()]*)\)(\??)|([^()]+)", wrong.replace(r"\b", "").replace("\\", ""))
    choices = [(group + "|" * bool(optional)).split("|") if group else [plain] for group, optional, plain in parts]
    return ["".join(choice) for choice in itertools.product(*choices)]


def hits(name, text, words):
    """(line, phrase, replacement) of each hit."""
    for _, wrong, instead in words:
        for match in wrong.finditer(text):
            phrase = flat(match[0])
            if not allowed(name, phrase):
                yield text.count("\n", 0, match.start()) + 1, phrase, instead


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1]).resolve()
    texts = {name: (root / name).read_text(encoding="utf-8", errors="replace").lower() for name in files(root)}
    flats = {name: flat(text) for name, text in texts.items()}
    everything = "\n".join(flats.values())
    words = [(phrase, re.compile(wrong.lower().replace(" ", BREAK)), instead) for wrong, instead in WORDS
             for phrase in expansions(wrong.lower()) if phrase in everything]
    found = 0
    for name, text in texts.items():
        present = [word for word in words if word[0] in flats[name]]
        for line, phrase, instead in sorted(set(hits(name, text, present))):
            print(f"{name}:{line}: '{phrase}': write '{instead}'")
            found += 1
    if found:
        sys.exit(f"{found} words or phrases to replace; quoted text goes into ALLOWED in tools/check_words.py")


if __name__ == "__main__":
    main()
