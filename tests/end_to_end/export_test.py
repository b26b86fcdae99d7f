"""`trainer export`."""

import json
import pathlib
import shutil
import struct
import unittest

from support import EndToEnd

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
LORA = {"lora": {"r": 4, "target_modules": ["q_proj", "down_proj"]}, "training": {"learning_rate": 0.05, "max_steps": 3}}


def kinds(file):
    """The value of general.type, and the number of tensors."""
    content = file.read_bytes()
    magic, version, tensors, _ = struct.unpack_from("<4sIQQ", content)
    assert (magic, version) == (b"GGUF", 3)
    key = content.index(b"general.type") + len("general.type") + 4
    size, = struct.unpack_from("<Q", content, key)
    return content[key + 8:key + 8 + size].decode(), tensors


class Export(EndToEnd):
    def setUp(self):
        super().setUp()
        self.base = self.folder / "llama"
        shutil.copytree(GOLDEN / "gguf/llama3", self.base)

    def run_of(self, name, **changes):
        """Trains on a tiny LLaMA."""
        data = {"task": "causal_lm", "source": "{sentence}", "target": None, "max_source_length": 32,
                "max_target_length": None}
        self.launch(self.job(name, {"model": {"config": None, "path": str(self.base)}, "tokenizer": None, "data": data,
                                    "evaluation": None, "training": {"max_steps": 3}}, changes))
        return self.folder / name

    def export(self, *words, code=0):
        run = self.trainer("export", *words).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def test_an_adapter_becomes_gguf_alone_and_merged(self):
        adapter = self.run_of("chat", **LORA)
        lora, merged, again = [self.folder / name for name in ("lora.gguf", "merged.gguf", "again.gguf")]
        self.assertRegex(self.export(adapter, lora).out, r"exported the adapter .*chat .*\(f16, ")
        self.assertEqual(kinds(lora), ("adapter", 8))
        self.assertNotIn("[trainer]", self.export(adapter, merged, "--format", "gguf", "--merge", "--type", "q8_0").err)
        refused = self.trainer("generate", merged, "--prompt", "x").wait()
        self.assertIn("is a file for llama.cpp: give the folder", refused.err)
        self.assertEqual(kinds(merged)[0], "model")
        # The same in two steps.
        self.export(adapter, self.folder / "chat-model", "--merge")
        (self.folder / "other").mkdir()
        shutil.move(self.folder / "chat-model", self.folder / "other" / "chat")
        self.export(self.folder / "other" / "chat", again, "--format", "gguf", "--type", "q8_0")
        self.assertEqual(merged.read_bytes(), again.read_bytes())
        self.assertEqual([], [path.name for path in self.folder.glob(".*.partial")])

    def test_a_run_and_its_checkpoint_become_the_same(self):
        run = self.run_of("full")
        newest = max(run.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))
        for name, words in (("gguf", ("--format", "gguf", "--type", "f32")), ("folder", ())):
            files = [self.folder / f"{source}.{name}" for source in ("run", "checkpoint")]
            self.export(run, files[0], *words)
            self.export(newest, files[1], *words)
            first, second = [file if file.is_file() else file / "model.safetensors" for file in files]
            self.assertEqual(first.read_bytes(), second.read_bytes())
        exported = {path.name for path in (self.folder / "run.folder").iterdir()}
        self.assertLessEqual({"config.json", "model.safetensors", "tokenizer.json"}, exported)
        self.assertFalse(any(name.startswith(("checkpoint", "metrics", "logs")) for name in exported), exported)

    def test_what_gguf_cannot_hold_is_refused_and_nothing_is_written(self):
        adapter = self.run_of("dora", **{**LORA, "lora": {**LORA["lora"], "use_dora": True}})
        file = self.folder / "x.gguf"
        self.assertIn("use_dora", self.export(adapter, file, "--format", "gguf", code=2).err)
        config = json.loads((self.base / "config.json").read_text())
        (self.base / "config.json").write_text(json.dumps({**config, "quantization_config": {"load_in_4bit": True}}))
        self.assertIn("quantization_config", self.export(self.base, file, "--format", "gguf", code=2).err)
        self.assertEqual([], list(self.folder.glob("*.gguf")) + list(self.folder.glob(".x*")))


if __name__ == "__main__":
    unittest.main()
