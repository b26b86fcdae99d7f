"""Every kind of bad input to a run: the exit code of its class, one short message that names the place, and no
output."""

import json
import os
import shutil
import struct
import subprocess
import unittest

from support import TINY_T5, TRAINER, EndToEnd, merged, snapshot

MOST_LINES = 6
CONFIGURATION, INPUT, MACHINE, NUMERIC = 2, 3, 4, 5
SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
SHORT = {"training": {"max_steps": 2}, "evaluation": None}


def read_safetensors(path):
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8:8 + size]), content[8 + size:]


def safetensors(header, payload):
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + payload


class BadInput(EndToEnd):
    def refused(self, code, *changes, says=(), flags=()):
        """Launches the job with these changes and checks that it is refused and leaves nothing behind."""
        output = self.folder / "output"
        run = self.start(self.job("output", SHORT, *changes), *flags).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        for text in says:
            self.assertIn(str(text), run.err)
        self.assertLessEqual(len(run.err.splitlines()), MOST_LINES, run.err)
        self.assertFalse(output.exists(), f"{list(output.rglob('*')) if output.exists() else ''} {run.err}")
        self.assert_nothing_runs()

    def damaged_model(self, change):
        """A copy of a good model folder, changed by `change(folder)`."""
        folder = self.folder / "model"
        if folder.exists():
            shutil.rmtree(folder)
        shutil.copytree(self.base_model(), folder)
        change(folder)
        return {"model": {"config": None, "path": str(folder)}}


class BadModel(BadInput):
    def test_missing_folder(self):
        self.refused(INPUT, {"model": {"config": None, "path": str(self.folder / "nowhere")}}, says=["nowhere"])

    def test_missing_weights(self):
        model = self.damaged_model(lambda folder: (folder / "model.safetensors").unlink())
        self.refused(INPUT, model, says=["model"])

    def test_configuration_that_is_not_json(self):
        model = self.damaged_model(lambda folder: (folder / "config.json").write_text("{"))
        self.refused(INPUT, model, says=["config.json"])

    def test_truncated_weights(self):
        for kept in (0, 5, 100, -1):
            with self.subTest(kept=kept):
                def cut(folder):
                    path = folder / "model.safetensors"
                    path.write_bytes(path.read_bytes()[:kept])
                self.refused(INPUT, self.damaged_model(cut), SHARDED, says=["model.safetensors"])

    def test_offsets_outside_the_file(self):
        def shift(folder):
            header, payload = read_safetensors(folder / "model.safetensors")
            header["shared.weight"]["data_offsets"][1] += 1 << 40
            (folder / "model.safetensors").write_bytes(safetensors(header, payload))
        self.refused(INPUT, self.damaged_model(shift), says=["model.safetensors", "shared.weight"])

    def test_offsets_that_overlap(self):
        def overlap(folder):
            header, payload = read_safetensors(folder / "model.safetensors")
            names = [name for name in header if name != "__metadata__"]
            for one in names:
                for other in names:
                    if one < other and header[one]["shape"] == header[other]["shape"]:
                        header[one]["data_offsets"] = header[other]["data_offsets"]
                        (folder / "model.safetensors").write_bytes(safetensors(header, payload))
                        return
        self.refused(INPUT, self.damaged_model(overlap), says=["model.safetensors"])

    def test_other_shapes(self):
        def widen(folder):
            config = json.loads((folder / "config.json").read_text())
            (folder / "config.json").write_text(json.dumps({**config, "d_ff": 48}))
        self.refused(INPUT, self.damaged_model(widen), SHARDED, says=["DenseReluDense.wi.weight", "[32, 16]", "[48, 16]"])

    def test_tokenizer_larger_than_the_vocabulary(self):
        self.refused(CONFIGURATION, {"model": {"config": merged(TINY_T5, {"vocab_size": 300})}}, says=["300", "vocab_size"])

    def test_damaged_tokenizer(self):
        content = (self.tokenizer / "spiece.model").read_bytes()
        path = self.write("spiece.model", content[:len(content) // 2])
        self.refused(INPUT, {"tokenizer": {"path": str(path)}}, says=["spiece.model"])

    def test_adapters_without_a_target(self):
        self.refused(CONFIGURATION, {"lora": {"target_modules": ["query"]}}, says=["query", "k, lm_head, o, q, relative_attention_bias, shared, v, wi, wo"])

    def test_unknown_class_to_wrap(self):
        self.refused(CONFIGURATION, SHARDED, {"fsdp_config": {"fsdp_transformer_layer_cls_to_wrap": "BertLayer"}},
                     says=["BertLayer", "T5Block"])


class BadData(BadInput):
    def check(self, name, content, *says, code=INPUT, **train):
        path = self.write(name, content)
        data = {"data": {"train": None, "max_samples": None}}, {"data": {"train": {"path": str(path), **train}}}
        self.refused(code, *data, says=says)

    def test_missing(self):
        self.refused(INPUT, {"data": {"train": {"path": str(self.folder / "none.txt")}}}, says=["none.txt"])

    def test_empty(self):
        self.check("empty.jsonl", "", "empty.jsonl")

    def test_malformed_csv(self):
        self.check("open.csv", 'sentence,label\na,b\n"c,d\ne,f\n', "open.csv:3")
        self.check("wide.csv", "sentence,label\na,b\nc,d,e\n", "wide.csv:3")

    def test_malformed_json_lines(self):
        self.check("bad.jsonl", '{"sentence": "a", "label": "b"}\n{"sentence": "a", "label": }\n', "bad.jsonl:2")

    def test_missing_column(self):
        self.check("other.jsonl", '{"sentence": "a", "label": "b"}\n{"sentence": "a"}\n', "other.jsonl:2", "label")

    def test_line_without_delimiter(self):
        self.check("plain.txt", "fine@good\nnothing here\n", "plain.txt:2", "@", format="delimited",
                   columns=["sentence", "label"])

    def test_text_in_another_encoding(self):
        self.check("latin.txt", b"fine@good\nna\xefve@good\n", "latin.txt:2", format="delimited",
                   columns=["sentence", "label"])


class BadOutput(BadInput):
    def test_below_a_file(self):
        path = self.write("file", "")
        run = self.launch(self.job("output", {"output_dir": str(path / "runs")}), code=MACHINE)
        self.assertIn(str(path), run.err)
        self.assertEqual(path.read_text(), "")

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which("setpriv"), "root and setpriv are needed to change the user")
    def test_folder_of_another_user(self):
        nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if subprocess.run([*nobody, TRAINER, "--help"], capture_output=True, check=False).returncode != 0:
            self.skipTest("the user nobody cannot run the program at its path")
        config = self.job("output")
        run = self.start(config, before=nobody).wait()
        self.assertEqual(run.code, MACHINE, run.err)
        self.assertIn(str(self.folder), run.err)
        self.assertLessEqual(len(run.err.splitlines()), MOST_LINES, run.err)
        self.assertFalse((self.folder / "output").exists())


class BadCheckpoint(BadInput):
    """The folder has a checkpoint, which must survive."""

    def setUp(self):
        super().setUp()
        self.launch(self.job("output", SHORT, SHARDED))
        self.output = self.folder / "output"

    def kept(self):
        """The files of the earlier run; logs and outcome.json belong to the latest launch."""
        return {name: digest for name, digest in snapshot(self.output).items()
                if not name.startswith("logs/") and name != "outcome.json"}

    def refused_beside_checkpoint(self, code, *changes, says=(), flags=()):
        before = self.kept()
        run = self.start(self.job("output", SHORT, SHARDED, *changes), *flags).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        for text in says:
            self.assertIn(text, run.err)
        self.assertLessEqual(len(run.err.splitlines()), MOST_LINES, run.err)
        self.assertEqual(self.kept(), before)
        outcome = json.loads((self.output / "outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["checkpoint"]), (code, str(self.output / "checkpoint-2")))

    def test_of_another_model(self):
        self.refused_beside_checkpoint(INPUT, {"model": {"config": {"d_ff": 48}}},
                                       says=["checkpoint-2", "DenseReluDense.wi.weight"])

    def test_of_another_seed(self):
        self.refused_beside_checkpoint(INPUT, {"seed": 8}, says=["seed 7", "checkpoint-2"])

    def test_damaged_shard(self):
        path = self.output / "checkpoint-2/rank-00001.safetensors"
        content = bytearray(path.read_bytes())
        content[-1] ^= 1
        path.write_bytes(content)
        self.refused_beside_checkpoint(INPUT, says=["rank-00001.safetensors", "checksum"])

    def test_shard_that_is_missing(self):
        (self.output / "checkpoint-2/rank-00000.safetensors").unlink()
        self.refused_beside_checkpoint(INPUT, says=["rank-00000.safetensors"])

    def test_damaged_manifest(self):
        path = self.output / "checkpoint-2/manifest.json"
        path.write_text(path.read_text()[:-20])
        self.refused_beside_checkpoint(INPUT, says=["manifest.json"])

    def test_missing_data(self):
        self.refused_beside_checkpoint(INPUT, {"data": {"train": {"path": "none.txt"}}}, says=["none.txt"])

    def test_false_refuses_to_overwrite(self):
        self.refused_beside_checkpoint(CONFIGURATION, flags=["--set", "checkpoint.resume_from_checkpoint=false"],
                                       says=["resume_from_checkpoint", "checkpoint-2"])


class BadConfiguration(BadInput):
    def test_all_problems_at_once(self):
        config = self.write("many.yaml", f"""distributed_type: FSPD
num_processes: 2
output_dir: {self.folder}/output
model: {{config: {{model_type: t5, vocab_size: 400}}}}
data:
  train: {{path: x.txt}}
  max_sample: 3
training:
  learning_rate: quick
  warmup_steps: -3
chekpoint: {{}}
""")
        run = self.launch(config, code=CONFIGURATION)
        for text in ("many.yaml:1:19: ", "many.yaml:7:3: ", "'max_samples'", "many.yaml:9:18: ", "'quick'",
                     "many.yaml:10:17: ", "-3", "6 problems"):
            self.assertIn(text, run.err)
        self.assertLessEqual(len(run.err.splitlines()), MOST_LINES)
        self.assertFalse((self.folder / "output").exists())

    def test_text_that_is_not_yaml(self):
        run = self.launch(self.write("broken.yaml", "model: {path: x\ntraining: [\n"), code=CONFIGURATION)
        self.assertIn("broken.yaml:", run.err)

    def test_missing_file(self):
        self.assertIn("none.yaml", self.launch(self.folder / "none.yaml", code=CONFIGURATION).err)


class Diverges(BadInput):
    def test_loss_that_is_not_finite(self):
        run = self.launch(self.job("output", SHARDED, {"training": {"learning_rate": 1e30}}), code=NUMERIC)
        self.assertRegex(run.err, "(loss|gradient norm) is (nan|inf)")
        self.assertIn("learning_rate", run.err)
        self.assertLessEqual(len(run.err.split("trainer: ")[-1].splitlines()), MOST_LINES)
        self.assertFalse((self.folder / "output/model.safetensors").exists())
        self.assertEqual(json.loads((self.folder / "output/outcome.json").read_text())["code"], NUMERIC)


if __name__ == "__main__":
    unittest.main()
