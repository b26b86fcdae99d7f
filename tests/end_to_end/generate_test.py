"""`trainer generate`."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest
from unittest import mock

from support import PATIENCE, TRAINER, EndToEnd

LLAMA = {"model_type": "llama", "vocab_size": 400, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1,
         "num_attention_heads": 2, "eos_token_id": 399, "pad_token_id": 398, "bos_token_id": 397}
NO_T5 = {"model": {"config": None}, "data": {"max_source_length": None, "max_target_length": None}}
CAUSAL = {"model": {"config": LLAMA}, "data": {"task": "causal_lm", "validation": None}, "evaluation": None,
          "training": {"max_steps": 2}, "checkpoint": {"save_steps": 0}}


class Generate(EndToEnd):
    def model(self):
        if not (self.folder / "llama").exists():
            self.launch(self.job("llama", NO_T5, CAUSAL))
        return self.folder / "llama"

    def generate(self, *words, code=0):
        run = self.trainer("generate", *words).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def test_a_prompt_is_answered_as_its_line_in_a_file(self):
        model = self.model()
        texts = ["Sales rose", "The", "Profit of the period fell", "x"]
        file = self.write("prompts.jsonl", "".join(json.dumps({"prompt": text}) + "\n" for text in texts))
        out = self.folder / "replies.jsonl"
        length = ("--max_new_tokens", "12")
        for batch in ("1", "3"):
            self.generate(model, "--input", file, "--output", out, "--batch_size", batch, *length)
            replies = [json.loads(line) for line in out.read_text().splitlines()]
            self.assertEqual([reply["prompt"] for reply in replies], texts)
            for reply in replies:
                alone = self.generate(model, "--prompt", reply["prompt"], *length).out
                self.assertEqual(alone, reply["generated"] + "\n")
        printed = self.generate(model, "--input", file, *length).out
        self.assertEqual(printed, out.read_text())
        self.assertEqual([], list(self.folder.glob(".*.partial")))

    def test_a_gpu_replies_as_the_cpu(self):
        """On the simulated accelerator. Its models are in fp32, so that the most likely tokens are the same."""
        model = self.model()
        file = self.write("prompts.jsonl", "".join(json.dumps({"prompt": text}) + "\n" for text in ("Sales rose", "The", "x")))
        words = (model, "--input", file, "--max_new_tokens", "12")
        library = os.path.join(os.path.dirname(TRAINER), "libtrainer_simulated.so")
        for flags in ((), ("--num_beams", "3"), ("--temperature", "0.7")):
            def replies(*more):
                return [json.loads(line)["generated"] for line in self.generate(*words, *flags, *more).out.splitlines()]
            on_cpu = replies()
            with mock.patch.dict(os.environ, {"TRAINER_ACCELERATOR_LIBRARY": library}):
                self.assertEqual(replies("--device", "cuda"), on_cpu, flags)
        run = self.generate(model, "--prompt", "x", "--device", "cuda", code=4)
        self.assertIn("no GPU support", run.err)
        self.generate(model, "--prompt", "x", "--device", "cuda", "--cpu", code=2)

    def test_draws_follow_the_seed(self):
        model = self.model()
        draw = ("--prompt", "Sales", "--temperature", "2", "--max_new_tokens", "20")
        one, again, other = [self.generate(model, *draw, "--seed", seed).out for seed in ("1", "1", "2")]
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)
        self.assertEqual(self.generate(model, *draw, "--top_k", "1").out,
                         self.generate(model, *draw[:2], *draw[4:]).out)

    def test_several_replies_are_drawn(self):
        model, words = self.model(), ("--prompt", "Sales", "--temperature", "1", "--max_new_tokens", "8")
        lines = self.generate(model, *words, "--num_return_sequences", "3", "--json").out.splitlines()
        replies = [json.loads(line) for line in lines]
        self.assertEqual([reply["prompt"] for reply in replies], ["Sales"] * 3)
        self.assertGreater(len({reply["generated"] for reply in replies}), 1)
        alone = json.loads(self.generate(model, *words, "--json").out)
        self.assertEqual(alone, replies[0])
        shown = self.generate(model, *words, "--num_return_sequences", "3").out
        self.assertEqual(re.findall("--- (.*)", shown), ["1 of 3", "2 of 3", "3 of 3"])
        file = self.write("prompts.jsonl", '{"prompt": "Sales"}\n' * 2)
        both = self.generate(model, "--input", file, *words[2:], "--num_return_sequences", "3").out.splitlines()
        self.assertEqual(both[:3], lines)
        self.assertEqual(len(both), 6)

    def test_the_best_texts_of_a_beam_search_are_printed_with_their_scores(self):
        model, words = self.model(), ("--max_new_tokens", "8", "--num_beams", "4")
        asked = (model, "--prompt", "Sales", *words)
        lines = self.generate(*asked, "--num_return_sequences", "3", "--json").out.splitlines()
        replies = [json.loads(line) for line in lines]
        scores = [reply["score"] for reply in replies]
        self.assertEqual((len(scores), scores), (3, sorted(scores, reverse=True)))
        self.assertLess(scores[0], 0)
        self.assertEqual(json.loads(self.generate(*asked, "--json").out), replies[0])
        self.assertEqual(self.generate(*asked).out, replies[0]["generated"] + "\n")
        shown = self.generate(*asked, "--num_return_sequences", "3").out
        self.assertEqual(re.findall("--- (.*), score", shown), ["1 of 3", "2 of 3", "3 of 3"])
        file = self.write("prompts.jsonl", '{"prompt": "Sales"}\n{"prompt": "Orders"}\n{"prompt": "Sales"}\n')
        inputs = ("--input", file, "--batch_size", "6", *words, "--num_return_sequences", "3")
        of_file = [json.loads(line) for line in self.generate(model, *inputs).out.splitlines()]
        self.assertEqual([reply["prompt"] for reply in of_file], ["Sales"] * 3 + ["Orders"] * 3 + ["Sales"] * 3)
        for mine, alone in zip(of_file[:3] + of_file[6:], replies * 2, strict=True):
            self.assertEqual(mine["generated"], alone["generated"])
            self.assertAlmostEqual(mine["score"], alone["score"], places=5)
        refused = self.generate(*asked, "--num_return_sequences", "5", code=2).err
        self.assertIn("num_beams is 4", refused)

    def test_a_stop_ends_the_reply(self):
        model = self.model()
        words = (model, "--prompt", "Sales rose", "--max_new_tokens", "20")
        whole = self.generate(*words).out.rstrip("\n")
        stop = whole[5:8]
        self.assertEqual(self.generate(*words, "--stop", stop).out, whole[:whole.index(stop)] + "\n")

    def test_an_adapter_is_used_with_its_base_model(self):
        base = {"model": {"config": None, "path": str(self.model())}, "tokenizer": None}
        self.launch(self.job("adapter", NO_T5, CAUSAL, base, {"lora": {"r": 4, "init_lora_weights": False}}))
        words = ("--prompt", "Sales rose", "--max_new_tokens", "12")
        plain = self.generate(self.folder / "llama", *words).out
        adapted = self.generate(self.folder / "adapter", *words).out
        self.assertNotEqual(adapted, plain)
        self.assertEqual(self.generate(self.folder / "llama", "--adapter", self.folder / "adapter", *words).out, adapted)
        self.assertEqual(self.trainer("merge", self.folder / "adapter", self.folder / "merged").wait().code, 0)
        self.assertEqual(self.generate(self.folder / "merged", *words).out, adapted)

    def test_sequence_to_sequence_models_answer(self):
        self.generate(self.base_model(), "--prompt", "Sales rose", "--max_new_tokens", "4")

    def test_mistakes_are_explained(self):
        model = self.model()
        odd = self.write("odd.jsonl", '{"a": "x", "b": "y"}\n')
        both = ("--prompt", "x", "--input", odd)
        for words, code, expected in (
                ((self.folder / "none", "--prompt", "x"), 3, "is not on this machine"),
                ((model, *both), 2, "exclude each other"),
                ((model,), 2, "not a terminal"),
                ((model, "--prompt", "x", "--output", "f"), 2, "needs --input"),
                ((model, "--prompt", "x", "--chat"), 2, "--chat_template"),
                ((model, "--prompt", "x", "--max_new_tokens", "0"), 2, "--max_new_tokens"),
                ((model, "--prompt", "x", "--top-q", "1"), 2, "did you mean '--top_k'"),
                ((model, "--input", self.folder / "none.jsonl"), 3, "none.jsonl"),
                ((model, "--input", odd), 3, "odd.jsonl:1: no column messages, prompt or text; it has a, b")):
            self.assertIn(expected, self.generate(*words, code=code).err)
        out = self.generate(model, "--input", odd, "--source", "{a} and {b}", "--max_new_tokens", "2").out
        self.assertEqual(json.loads(out)["prompt"], "x and y")

    def test_a_file_that_fails_in_the_middle_leaves_no_output(self):
        file = self.write("prompts.jsonl", '{"prompt": "a"}\n' * 9 + "{broken\n")
        out = self.folder / "replies.jsonl"
        self.generate(self.model(), "--input", file, "--output", out, "--batch_size", "2", code=3)
        self.assertFalse(out.exists())
        self.assertEqual([], list(self.folder.glob(".*.partial")))


HOW = "Enter sends a message, Ctrl-C stops a reply.\r\nCtrl-D ends the chat, as does Ctrl-C at the prompt.\r\n"


class Chat(EndToEnd):
    def setUp(self):
        super().setUp()
        self.launch(self.job("llama", NO_T5, CAUSAL))
        self.screen, inner = pty.openpty()
        self.process = subprocess.Popen([TRAINER, "generate", self.folder / "llama", "--chat_template", "chatml",
                                         "--max_new_tokens", "1900"], stdin=inner, stdout=inner, stderr=inner,
                                        preexec_fn=lambda: (os.setsid(), __import__("fcntl").ioctl(0, 0x540E, 0)))
        os.close(inner)
        self.addCleanup(os.close, self.screen)
        self.addCleanup(self.process.wait)
        self.addCleanup(self.process.kill)
        self.seen = ""

    def read_until(self, condition):
        end = time.monotonic() + PATIENCE
        while not condition(self.seen):
            self.assertLess(time.monotonic(), end, self.seen)
            if select.select([self.screen], [], [], 0.1)[0]:
                self.seen += os.read(self.screen, 4096).decode(errors="replace")

    def type(self, text):
        os.write(self.screen, text.encode())

    def test_replies_follow_and_control_c_and_d_end(self):
        self.read_until(lambda seen: seen == HOW + "> ")
        self.type("hello\n")
        self.read_until(lambda seen: seen.endswith("\n> "))
        self.type("\x04")
        self.assertEqual(self.process.wait(PATIENCE), 0)

    def test_control_c_ends_a_reply_and_not_the_chat(self):
        self.read_until(lambda seen: seen == HOW + "> ")
        self.type("hello\n")
        self.read_until(lambda seen: len(seen) > len(HOW + "> hello\r\n") + 10)
        self.type("\x03")
        self.read_until(lambda seen: seen.endswith("\n> "))
        self.type("\x04")
        self.assertEqual(self.process.wait(PATIENCE), 0)

    def test_control_c_at_the_prompt_ends_the_chat(self):
        self.read_until(lambda seen: seen == HOW + "> ")
        self.type("\x03")
        self.assertEqual(self.process.wait(PATIENCE), 128 + signal.SIGINT)

    def test_a_pipe_gets_replies_without_the_help_for_a_terminal(self):
        done = subprocess.run([TRAINER, "generate", self.folder / "llama", "--chat", "--chat_template", "chatml",
                               "--max_new_tokens", "2"], input="hello\n", capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue(done.stdout.startswith("> "), done.stdout)

    def test_the_system_message_comes_first(self):
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}]
        records = self.write("dialogue.jsonl", json.dumps({"messages": turns}) + "\n")
        asked = [TRAINER, "generate", self.folder / "llama", "--chat_template", "chatml", "--max_new_tokens", "8"]
        of_flag = subprocess.run([*asked, "--chat", "--system", "Be brief.", "--prompt", "hello", "--json"],
                                 capture_output=True, text=True)
        of_record = subprocess.run([*asked, "--input", records], capture_output=True, text=True)
        self.assertEqual((of_flag.returncode, of_record.returncode), (0, 0), of_flag.stderr + of_record.stderr)
        self.assertIn("Be brief.", json.loads(of_flag.stdout)["prompt"])
        self.assertEqual(json.loads(of_flag.stdout), json.loads(of_record.stdout))


if __name__ == "__main__":
    unittest.main()
