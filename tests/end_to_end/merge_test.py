"""`trainer merge`."""

import json
import unittest

from support import TINY_T5, EndToEnd

LORA = {"lora": {"r": 4, "target_modules": ["q", "v", "wo"]}, "training": {"learning_rate": 0.1}}


class Merge(EndToEnd):
    def adapter(self, name="adapter", **changes):
        """Trains an adapter."""
        base = {"model": {"config": None, "path": str(self.base_model())}, "tokenizer": None}
        self.launch(self.job(name, base, LORA, changes))
        return self.folder / name

    def merge(self, *words, code=0):
        run = self.trainer("merge", *words).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def test_the_adapter_of_a_sharded_run_becomes_a_model(self):
        adapter = self.adapter(distributed_type="FSDP", num_processes=2)
        merged = self.folder / "merged"
        run = self.merge(adapter, merged, "--verify")
        self.assertRegex(run.out, r"merged the LoRA adapter .*adapter \(\d+ layers\) into .*base")
        self.assertRegex(run.out, r"largest relative error of the merged model's logits: \d\.\de-0[789]")
        self.assertFalse((merged / "adapter_config.json").exists())
        for name in ("tokenizer.json", "config.json", "model.safetensors"):
            self.assertEqual((merged / name).exists(), (self.base_model() / name).exists(), name)
        self.launch(self.job("again", {"model": {"config": None, "path": str(merged)}, "tokenizer": None,
                                       "training": {"max_steps": 1}}))

    def test_a_checkpoint_is_merged(self):
        adapter = self.adapter()
        self.merge(adapter, self.folder / "last")
        self.merge(adapter / "checkpoint-12", self.folder / "twelve", "--dtype", "float32")
        self.merge(adapter / "checkpoint-3", self.folder / "three")
        last, twelve, three = [(self.folder / name / "model.safetensors").read_bytes()
                               for name in ("last", "twelve", "three")]
        self.assertEqual(last, twelve)
        self.assertNotEqual(last, three)

    def test_another_dtype_halves_the_file(self):
        adapter = self.adapter()
        self.merge(adapter, self.folder / "half", "--dtype", "bfloat16")
        half, whole = [(folder / "model.safetensors").stat().st_size
                       for folder in (self.folder / "half", self.base_model())]
        self.assertLess(half, 0.7 * whole)
        self.assertEqual(json.loads((self.folder / "half" / "config.json").read_text())["dtype"], "bfloat16")

    def test_several_adapters_are_combined(self):
        one, two = self.adapter("one"), self.adapter("two", lora={"r": 2, "target_modules": ["v"]})
        run = self.merge(f"{one}:0.7", f"{two}:-0.3", self.folder / "both", "--combination", "cat", "--adapter_only")
        self.assertRegex(run.out, rf"combined 0.7 x {one} \+ -0.3 x {two} \(cat, rank 6, \d+ layers\)")
        self.assertRegex(run.out, r"relative error of the sum of their changes: \de-0[789]|\d\.\de-0[789]|0\.0e\+00")
        config = json.loads((self.folder / "both" / "adapter_config.json").read_text())
        self.assertEqual((config["r"], config["lora_alpha"], config["target_modules"]), (6, 6, ["q", "v", "wo"]))
        self.merge(self.folder / "both", self.folder / "in_two_steps")
        run = self.merge(f"{one}:0.7", f"{two}:-0.3", self.folder / "merged", "--combination", "cat", "--verify")
        self.assertRegex(run.out, r"merged the combined adapter \(\d+ layers\) into .*base")
        self.assertRegex(run.out, r"largest relative error of the merged model's logits: \d\.\de-0[789]")
        weights = [(self.folder / name / "model.safetensors").read_bytes() for name in ("in_two_steps", "merged")]
        self.assertEqual(*weights)
        self.assertEqual([], [path.name for path in self.folder.iterdir() if path.name.startswith(".merged")])

    def test_one_adapter_of_weight_1_is_merged_as_without(self):
        adapter = self.adapter()
        self.merge(adapter, self.folder / "plain", "--dtype", "float32")
        self.merge(f"{adapter}:1", self.folder / "weighted", "--dtype", "float32")
        sizes = [(self.folder / name / "model.safetensors").stat().st_size for name in ("plain", "weighted")]
        self.assertEqual(*sizes)

    def test_mistakes_in_a_combination_are_explained_together(self):
        run = self.merge("a", "b:many", "c:nan", "folder", "--density", "2", code=2)
        for text in ("a has no weight: write a:0.5", "'many' is not a number", "'nan' is not a number", "--density"):
            self.assertIn(text, run.err)
        run = self.merge("a:1", "b:1", "folder", "--combination", "ties", "--rank", "4", "--seed", "1", code=2)
        for text in ("--rank has no effect with --combination ties", "svd", "--seed", "needs --density"):
            self.assertIn(text, run.err)
        self.assertIn("--combination", self.merge("a:1", "folder", "--combination", "cat", code=2).err)
        self.assertIn("--verify", self.merge("a:1", "b:1", "folder", "--verify", "--adapter_only", code=2).err)

    def test_mistakes_are_explained_and_nothing_is_written(self):
        adapter = self.adapter()
        merged = self.folder / "merged"
        self.assertIn("is not empty", self.merge(adapter, self.base_model(), code=2).err)
        self.assertIn("does not exist", self.merge(self.folder / "none", merged, code=3).err)
        self.assertIn("has no adapter_config.json", self.merge(self.base_model(), merged, code=3).err)
        self.assertIn("nowhere is not on this machine",
                      self.merge(adapter, merged, "--base", self.folder / "nowhere", code=3).err)
        self.assertIn("--dtype", self.merge(adapter, merged, "--dtype", "int8", code=2).err)
        self.assertIn("FOLDER", self.merge(adapter, code=2).err)
        file = adapter / "adapter_model.safetensors"
        file.write_bytes(file.read_bytes()[:-100])
        self.assertIn("adapter_model.safetensors", self.merge(adapter, merged, code=3).err)
        self.assertFalse(merged.exists())
        self.assertEqual([], list(self.folder.glob(".*.partial")))


if __name__ == "__main__":
    unittest.main()
