"""`trainer config` from a user's point of view: the file it writes for each family and task passes `check` and trains."""

import fcntl
import gzip
import json
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import termios
import time
import unicodedata
import unittest

from support import PATIENCE, SAMPLES, TRAINER, EndToEnd, merged, read_lines

SIZES = {"vocab_size": 420, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
         "num_attention_heads": 2, "max_position_embeddings": 128}
GROUPED = {**SIZES, "num_key_value_heads": 1}
MODELS = {
    "t5": {"vocab_size": 420, "d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2},
    "llama": GROUPED, "mistral": GROUPED, "qwen2": GROUPED, "qwen3": {**GROUPED, "head_dim": 8}, "smollm3": GROUPED,
    **{family: {**GROUPED, "head_dim": 8} for family in ("gemma", "gemma2", "gemma3_text")},
    "gpt2": {"vocab_size": 420, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 128},
    "bert": SIZES,
    "mlp": {"input_size": 16, "hidden_sizes": [8], "num_labels": 3},
}
GOALS = ["answer", "classify", "continue", "dialogue", "preferences", "images", "scratch", "nothing yet"]
DECODERS = ("llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "gemma2", "gemma3_text", "gpt2")
FAMILIES = {"t5": ["answer"], "bert": ["classify"], "mlp": ["images"],
            **{family: ["continue", "classify"] for family in DECODERS}, "gpt2": ["answer", "continue", "classify"]}


def task_of(family, goal):
    tasks = {"classify": "sequence_classification", "images": "image_classification"}
    return tasks.get(goal, "seq2seq_lm" if family == "t5" else "causal_lm")


QUESTION = re.compile(r"(\]: |\? |: )$")

DIALOGUES = {
    "messages.jsonl": {"messages": [{"role": "user", "content": "How are the harvests?"},
                                    {"role": "assistant", "content": "They held steady."}]},
    "sharegpt.jsonl": {"conversations": [{"from": "human", "value": "How are the harvests?"},
                                         {"from": "gpt", "value": "They held steady."}]},
    "turns.jsonl": {"chat": [{"role": "user", "content": "How are the harvests?"},
                             {"role": "assistant", "content": "They held steady."}]},
    "alpaca.jsonl": {"instruction": "Describe the harvests.", "input": "", "output": "They held steady."},
}


PROMPT = [{"role": "user", "content": "How are the harvests?"}]
PAIRS = {
    "lists.jsonl": {"chosen": [*PROMPT, {"role": "assistant", "content": "They held steady."}],
                    "rejected": [*PROMPT, {"role": "assistant", "content": "the harvests fell."}]},
    "last_turns.jsonl": {"conversations": [{"from": "human", "value": "How are the harvests?"}],
                         "chosen": {"from": "gpt", "value": "They held steady."},
                         "rejected": {"from": "gpt", "value": "the harvests fell."}},
    "questions.jsonl": {"question": "How are the harvests?", "chosen": "They held steady.", "rejected": "the harvests fell."},
    "texts.jsonl": {"chosen": "How are the harvests? They held steady.", "rejected": "How are the harvests? the harvests fell."},
    "other_columns.jsonl": {"prompt": "How are the harvests?", "good": "They held steady.", "bad": "the harvests fell."},
}
ROWS, COLUMNS = 24, 80
# Of Accelerate's questions, which the wizard asks word for word.
ACCELERATES = ("even if a GPU / Apple Silicon", "How many different machines will you use",
               "Should distributed operations be checked", "of transformer layer class names", "FSDP's minimum number of",
               "use the model's `_no_split_modules`")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def width(line):
    """The columns that a line takes on a terminal."""
    return sum(0 if unicodedata.combining(letter) else 2 if unicodedata.east_asian_width(letter) in "WF" else 1
               for letter in line)


def too_wide(shown, typed):
    """The lines that a terminal of 80 columns would break, except those that hold what the user typed."""
    lines = ESCAPE.sub("", shown).replace("\r", "\n").split("\n")
    return [line for line in lines if width(line) > COLUMNS and not any(text in line for text in [*typed, *ACCELERATES] if len(text) > 20)]


class Wizard(EndToEnd):
    """Answers questions that contain given texts, and presses Enter for the others."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.images = cls.shared / "images"
        cls.images.mkdir()
        pixels, labels = bytes(range(160)) * 2, bytes([0, 1, 2, 1] * 5)
        (cls.images / "train-images-idx3-ubyte").write_bytes(struct.pack(">iiii", 0x803, 20, 4, 4) + pixels)
        with gzip.open(cls.images / "train-labels-idx1-ubyte.gz", "wb") as file:
            file.write(struct.pack(">ii", 0x801, 20) + labels)

    @classmethod
    def model(cls, family):
        """A tiny model folder with weights and, except for images, a tokenizer."""
        folder = cls.shared / family
        if folder.exists():
            return folder
        task = task_of(family, FAMILIES[family][0])
        images = {"data": {"task": task, "train": {"path": str(cls.images), "format": "mnist"}}}
        texts = {"tokenizer": {"path": str(cls.tokenizer)},
                 "data": {"task": task, "train": {"path": str(SAMPLES), "format": "delimited"},
                          "source": "source", "target": "target", "max_samples": 20}}
        job = merged({"distributed_type": "NO", "use_cpu": True, "output_dir": str(folder),
                      "model": {"config": {"model_type": family, **MODELS[family]}},
                      "training": {"max_steps": 1}, "checkpoint": {"save_steps": 0}}, images if family == "mlp" else texts)
        path = cls.shared / f"{family}.yaml"
        path.write_text(json.dumps(job))
        done = subprocess.run([TRAINER, "launch", "--config_file", path], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stdout + done.stderr)
        return folder

    def converse(self, answers, terminal, name="my.yaml"):
        """Everything `trainer config` shows. A list holds successive answers to the same question."""
        ours, theirs = pty.openpty() if terminal else (None, None)
        process = subprocess.Popen([TRAINER, "config", "--config_file", name], cwd=self.folder,
                                   stdin=theirs if terminal else subprocess.PIPE, stderr=subprocess.STDOUT,
                                   stdout=theirs if terminal else subprocess.PIPE,
                                   env={**os.environ, "TERM": "xterm", "NO_COLOR": "1"}, start_new_session=True)
        if terminal:
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.close(theirs)
        source = ours if terminal else process.stdout.fileno()
        left = {question: list(given) if isinstance(given, list) else [given] for question, given in answers.items()}
        shown, asked = "", ""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if not select.select([source], [], [], 1)[0]:
                continue
            try:
                chunk = os.read(source, 65536).decode(errors="replace")
            except OSError:  # the program has closed the terminal
                break
            if not chunk:
                break
            shown, asked = shown + chunk, asked + chunk
            waits = QUESTION.search(asked) or ("➔" in asked and asked.endswith("\r\n"))
            # A menu of the terminal may come in several pieces; each question of a pipe is one.
            if not waits or select.select([source], [], [], 0.1 if terminal else 0.01)[0]:
                continue
            question = next((q for q in left if q in asked), None)
            answer = left[question].pop(0) if question else ""
            if question and not left[question]:
                del left[question]
            asked = ""
            os.write(ours if terminal else process.stdin.fileno(), (answer + "\n").encode())
        else:
            process.kill()
            self.fail(f"the wizard still waits after:\n{shown}")
        process.wait()
        if terminal:
            os.close(ours)
        else:
            process.stdin.close()
            process.stdout.close()
        self.assertEqual(process.returncode, 0, shown)
        self.assertEqual(left, {}, shown)
        if terminal:
            typed = [text for given in answers.values() for text in (given if isinstance(given, list) else [given])]
            self.assertEqual("\n".join(too_wide(shown, [*typed, str(self.folder), str(self.shared)])), "")
        return shown

    def check_trains(self, shown, name="my.yaml"):
        """The file passes `check`, and two updates of it succeed."""
        self.assertNotIn("not complete", shown)
        path = self.folder / name
        check = self.trainer("check", "--config_file", path).wait()
        self.assertEqual(check.code, 0, shown + check.out + check.err)
        self.launch(path, "--set", "training.max_steps=2", "--set", "logging.logging_steps=1")
        self.assertEqual(len([line for line in read_lines(self.folder / "trainer_output") if "loss" in line]), 2)
        return path.read_text()

    def answers_for(self, family, goal):
        aim = {"What do you want to do?": str(GOALS.index(goal) + 1)}
        if goal == "images":
            return {**aim, "Which file holds": str(self.images)}
        return {**aim, "Which model?": str(self.model(family)), "Which file holds": str(SAMPLES)}

    def start_again(self):
        shutil.rmtree(self.folder / "trainer_output", ignore_errors=True)
        (self.folder / "my.yaml").unlink(missing_ok=True)

    def test_every_family_and_goal_through_a_pipe(self):
        for family, goals in FAMILIES.items():
            for goal in goals:
                with self.subTest(family=family, goal=goal):
                    self.start_again()
                    shown = self.converse(self.answers_for(family, goal), terminal=False)
                    text = self.check_trains(shown)
                    self.assertIn(f"task: {task_of(family, goal)}\n", text)
                    self.assertEqual("it learns what is in ⟦ ⟧:" in shown, goal != "images")
                    self.assertIn("  The first samples", shown)
                    self.assertRegex(shown, r"\nmodel .*\ndata .*\nmemory .*\nupdates ")

    def test_every_goal_on_a_terminal_with_lora_under_fsdp(self):
        for family, goal, block in (("t5", "answer", "T5Block"), ("gpt2", "answer", "GPT2Block"),
                                    ("bert", "classify", "BertLayer"), ("mistral", "continue", "MistralDecoderLayer")):
            with self.subTest(family=family):
                self.start_again()
                answers = {**self.answers_for(family, goal), "Which type of machine": "2",
                           "FullyShardedDataParallel?": "y", "LoRA adapters": "Yes", "try it out": "n"}
                text = self.check_trains(self.converse(answers, terminal=True))
                self.assertIn(f"fsdp_transformer_layer_cls_to_wrap: {block}\n", text)
                self.assertIn("target_modules:\n", text)

    def test_the_trial_measures_an_update(self):
        shown = self.converse({**self.answers_for("t5", "answer"), "try it out": "y"}, terminal=True)
        self.assertRegex(shown, r"\ntime +about \S+.*: \d+ updates of ")
        self.assertIn("The trial succeeded; its folder is deleted.", shown)
        self.assertFalse((self.folder / "trainer_output").exists(), shown)

    def test_images_on_a_terminal(self):
        scratch = {"What do you want to do?": str(GOALS.index("scratch") + 1), "What should the new model learn?": "5",
                   "Which file holds": str(self.images)}
        for answers in (self.answers_for("mlp", "images"), scratch):
            self.start_again()
            text = self.check_trains(self.converse({**answers, "try it out": "no"}, terminal=True))
            self.assertIn("input_size: 16\n", text)
            self.assertIn("num_labels: 3\n", text)

    def test_a_dialogue_on_a_terminal(self):
        self.write("chat.jsonl", (json.dumps(DIALOGUES["messages.jsonl"]) + "\n") * 9)
        answers = {**self.answers_for("llama", "dialogue"), "Which file holds": "chat.jsonl", "try it out": "no"}
        shown = self.converse(answers, terminal=True)
        self.assertRegex(shown, r"⟦[^⟧]*held\s+steady\.", "the reply is learned")
        self.assertIn("messages", self.check_trains(shown))

    def test_a_character_of_a_play(self):
        play = SAMPLES.parent / "play.txt"
        answers = {**self.answers_for("llama", "dialogue"), "Which file holds": str(play), "Which character": "FERRYMAN",
                   "try it out": "no"}
        shown = self.converse(answers, terminal=True)
        self.assertRegex(shown, r"user[^⟦]*assistant[^⟦]*⟦")
        self.assertIn("character: FERRYMAN\n", self.check_trains(shown))

    def test_an_earlier_run_keeps_its_folder(self):
        answers = {**self.answers_for("t5", "answer"), "try it out": "no"}
        self.check_trains(self.converse(answers, terminal=True))
        (self.folder / "my.yaml").unlink()
        self.converse(answers, terminal=True)
        self.assertIn("output_dir: trainer_output_2\n", (self.folder / "my.yaml").read_text())
        self.converse({**answers, "Which folder": [str(self.model("t5")), "other"]}, terminal=True, name="second.yaml")
        self.assertIn("output_dir: other\n", (self.folder / "second.yaml").read_text())

    def test_a_text_model_from_scratch_on_a_terminal(self):
        answers = {"What do you want to do?": str(GOALS.index("scratch") + 1), "What should the new model learn?": "3",
                   "How large should it be?": "1", "Where is its tokenizer?": str(self.tokenizer),
                   "Which file holds": str(SAMPLES), "try it out": "no"}
        text = self.check_trains(self.converse(answers, terminal=True))
        self.assertIn("model_type: ", text)
        self.assertIn("task: causal_lm\n", text)

    def test_a_sample_is_a_line_or_a_paragraph(self):
        self.write("poems.txt", "Roses are red.\nViolets are blue.\n\nSugar is sweet.\n\n" * 9)
        for answer, shown_sample in (("", r"R⟦oses are red\.</s>⟧"),
                                     ("paragraph", r"R⟦oses are red\.[^⟧]*iolets are blue\.</s>⟧")):
            with self.subTest(answer=answer):
                self.start_again()
                answers = {**self.answers_for("gpt2", "continue"), "Which file holds": "poems.txt",
                           "What is a sample": answer, "samples of equal length": "n"}
                shown = self.converse(answers, terminal=False)
                self.assertRegex(shown, shown_sample)
                self.assertEqual("sample_by: paragraph" in self.check_trains(shown), answer != "")

    def test_a_model_from_scratch_by_a_file_of_answers(self):
        answers = {"distributed_type": "NO", "use_cpu": True, "output_dir": str(self.folder / "trainer_output"),
                   "model": {"config": {"model_type": "llama", **MODELS["llama"]}},
                   "tokenizer": {"path": str(self.tokenizer)},
                   "data": {"task": "causal_lm", "train": {"path": str(SAMPLES)}}}
        self.write("answers.yaml", json.dumps(answers))
        done = self.trainer("config", "--config_file", self.folder / "my.yaml", "--answers",
                            self.folder / "answers.yaml").wait()
        self.assertEqual(done.code, 0, done.out + done.err)
        self.assertIn("model_type: llama\n", self.check_trains(done.out))

    def test_models_from_scratch(self):
        for number in "123":
            with self.subTest(goal=GOALS[int(number) - 1]):
                self.start_again()
                answers = {"What do you want to do?": str(GOALS.index("scratch") + 1),
                           "What should the new model learn?": number, "How large should it be?": "1",
                           "Where is its tokenizer?": ["", str(self.tokenizer)], "Which file holds": str(SAMPLES)}
                shown = self.converse(answers, terminal=False)
                self.assertIn("A tokenizer is required", shown)
                self.assertRegex(shown, r"  1  tiny: \S+ parameters, .* to train")
                self.check_trains(shown)

    def test_dialogues_are_recognized(self):
        for name, record in DIALOGUES.items():
            with self.subTest(file=name):
                self.start_again()
                self.write(name, (json.dumps(record) + "\n") * 9)
                answers = {**self.answers_for("llama", "dialogue"), "Which file holds": name}
                shown = self.converse(answers, terminal=False)
                self.assertIn("  Dialogues: ", shown)
                self.assertIn("Which chat template?", shown)
                self.assertRegex(shown, "⟦[^⟧]*held steady.", "the reply is learned")
                self.check_trains(shown)

    def test_preferences_are_recognized(self):
        for name, record in PAIRS.items():
            with self.subTest(file=name):
                self.start_again()
                self.write(name, (json.dumps(record) + "\n") * 9)
                answers = {**self.answers_for("llama", "preferences"), "Which file holds": name}
                if "good" in record:
                    answers |= {"Which column is the better reply?": "good", "Which column is the worse reply?": "bad"}
                shown = self.converse(answers, terminal=False)
                self.assertRegex(shown, r"chosen: [^\n]*⟦[^⟧]*They held steady\.")
                self.assertRegex(shown, r"rejected: [^\n]*⟦[^⟧]*the harvests fell\.")
                text = self.check_trains(shown)
                self.assertIn("dpo:\n  beta: 0.1\n", text)
                self.assertTrue(any("rewards/margins" in line for line in read_lines(self.folder / "trainer_output")))

    def test_a_file_of_answers_for_every_goal(self):
        self.write("chat.jsonl", (json.dumps(DIALOGUES["messages.jsonl"]) + "\n") * 9)
        cases = {"answer": ("t5", {}), "classify": ("bert", {}), "continue": ("gpt2", {}), "images": ("mlp", {}),
                 "dialogue": ("llama", {"dialogue": "messages", "chat_template": "chatml"})}
        for goal, (family, data) in cases.items():
            with self.subTest(goal=goal):
                self.start_again()
                path = {"images": str(self.images), "dialogue": "chat.jsonl"}.get(goal, str(SAMPLES))
                answers = {"distributed_type": "NO", "use_cpu": True,
                           "output_dir": str(self.folder / "trainer_output"), "model": {"path": str(self.model(family))},
                           "data": {"task": task_of(family, goal), "train": {"path": path}, **data}}
                self.write("answers.yaml", json.dumps(answers))
                done = self.trainer("config", "--config_file", self.folder / "my.yaml", "--answers",
                                    self.folder / "answers.yaml").wait()
                self.assertEqual(done.code, 0, done.out + done.err)
                self.check_trains(done.out)

    def test_help_and_going_back(self):
        answers = {**self.answers_for("t5", "answer"), "What do you want to do?": ["?", "2", "1"],
                   "Which model?": ["<", "?", str(self.model("t5"))], "Which learning rate?": ["?", ""]}
        shown = self.converse(answers, terminal=False)
        for told in ("preferences: each record has two replies, of which one is better (DPO).",
                     "  In the file: model.path", "  Peak learning rate.\n  In the file: training.learning_rate"):
            self.assertIn(told, shown)

    def test_a_hub_name_is_kept(self):
        snapshot = self.shared / "hub/models--somebody--tiny/snapshots/1a2b"
        shutil.copytree(self.model("gpt2"), snapshot, dirs_exist_ok=True)
        (snapshot.parents[1] / "refs").mkdir(exist_ok=True)
        (snapshot.parents[1] / "refs/main").write_text("1a2b")
        answers = {**self.answers_for("gpt2", "continue"), "Which model?": ["nobody/none", "somebody/tiny"]}
        shown = self.converse(answers, terminal=False, name="sub/my.yaml")
        self.assertIn("`hf download nobody/none`", shown)
        text = self.folder.joinpath("sub/my.yaml").read_text()
        self.assertIn("  path: somebody/tiny\n", text)
        self.check_trains(shown, name="sub/my.yaml")

    def test_impossible_answers_are_refused_at_once(self):
        self.write("mamba/config.json", '{"model_type": "mamba"}')
        self.write("bare/config.json", json.dumps({"model_type": "t5", **MODELS["t5"]}))
        self.write("a.parquet", b"PAR1\x15\x04")
        self.write("one.csv", "text\n" + "Harvests held steady.\n" * 9)
        self.write("two.csv", "text,label\n" + "Harvests held steady.,same\n" * 9)
        answers = {"What do you want to do?": ["translation", "answer"],
                   "Which model?": ["", "mamba", "bare", str(self.model("bert")), f"'{self.model('t5')}/'"],
                   "Which file holds": ["", "nowhere.csv", "a.parquet", "one.csv", "two.csv"],
                   "Which column is the input?": ["texts", ""]}
        shown = self.converse(answers, terminal=False)
        for told in ("Please choose one of the options; 'translation' is not one of them.", "A model is required", "model_type is 'mamba', which this version does not train",
                     "no weights", "This is a model of type bert, which this version trains for sequence_classification",
                     "Samples are required", "nowhere.csv does not exist.\n  Type it again", "a.parquet: cannot read the file",
                     "There is only one column: text.", "There is no column 'texts' (did you mean 'text'?)"):
            self.assertIn(told, shown)
        self.check_trains(shown)

    def test_only_accelerates_part(self):
        shown = self.converse({"What do you want to do?": str(GOALS.index("nothing yet") + 1)}, terminal=False)
        text = (self.folder / "my.yaml").read_text()
        self.assertIn("mixed_precision: 'no'\n", text)
        self.assertNotIn("model:", text, shown)


if __name__ == "__main__":
    unittest.main()
