"""Training on Parquet and Arrow files and on dataset folders, as on the same records in JSON lines."""

import json
import os
import pathlib
import shutil
import unittest

from support import REPOSITORY, TRAINER, EndToEnd, results

TABLES = REPOSITORY / "tests/data/tables"
BUILT = TRAINER and pathlib.Path(TRAINER).with_name("libtrainer_arrow.so").exists()
SHORT = {"training": {"max_steps": 3}, "checkpoint": {"save_steps": 0}, "evaluation": {"eval_steps": 0}}


def source(path, **more):
    return {"data": {"train": {"path": str(path), "format": None, "columns": None}, **more}}


@unittest.skipUnless(BUILT, "libtrainer_arrow.so is not built: Arrow's library is not installed")
class Tables(EndToEnd):
    def test_parquet_trains_as_json_lines(self):
        self.launch(self.job("expected", SHORT, source(TABLES / "reports.parquet.jsonl")))
        self.launch(self.job("output", SHORT, source(TABLES / "reports.parquet")))
        self.assert_same_run(self.folder / "output", self.folder / "expected")
        self.assertEqual(len(results(self.folder / "output")), 4)

    def test_a_dataset_of_the_hub_by_its_name(self):
        cached = self.shared / "hub/datasets--somebody--reports"
        self.addCleanup(shutil.rmtree, cached, ignore_errors=True)
        snapshot = cached / "snapshots/1a2b"
        (snapshot / "data").mkdir(parents=True)
        (cached / "refs").mkdir()
        (cached / "refs/main").write_text("1a2b")
        blob = cached / "blobs/c0ffee"  # the cache links to its files
        blob.parent.mkdir()
        shutil.copy(TABLES / "reports.parquet", blob)
        for split in ("train", "validation"):
            (snapshot / f"data/{split}-00000-of-00001.parquet").symlink_to(blob)
        (snapshot / "README.md").write_text("---\nconfigs:\n- config_name: default\n  data_files:\n"
                                            "  - split: train\n    path: data/train-*\n"
                                            "  - split: validation\n    path: data/validation-*\n---\n")
        lines = str(TABLES / "reports.parquet.jsonl")
        self.launch(self.job("expected", SHORT, source(lines, validation={"path": lines, "fraction": None})))
        name = "somebody/reports"
        self.launch(self.job("output", SHORT, source(name, validation={"path": name, "fraction": None})))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def test_the_cache_is_listed_and_pruned(self):
        cache = self.folder / "cache"
        self.launch(self.job("output", SHORT, source(TABLES / "reports.parquet", cache_dir=str(cache))))
        words = ("cache", "--cache_dir", str(cache))
        [entry] = json.loads(self.trainer(*words, "--json").wait().out)["caches"]
        self.assertEqual(entry["samples"], 62)
        self.assertIn(entry["name"], self.trainer(*words).wait().out)
        (cache / "notes").mkdir()  # not a cache
        kept = self.trainer(*words, "prune", "--max_size", "0").wait().out
        self.assertIn("freed 0 B in 0 caches", kept)  # a run may be starting
        for path in (cache / entry["name"], cache / f"{entry['name']}.lock"):
            os.utime(path, (0, 0))
        would = self.trainer(*words, "prune", "--older_than", "30", "--dry_run").wait().out
        self.assertIn("would be removed", would)
        self.assertTrue((cache / entry["name"]).exists())
        self.trainer(*words, "prune", "--older_than", "30").wait()
        self.assertFalse((cache / entry["name"]).exists())
        self.assertTrue((cache / "notes").exists())
        self.assertEqual(self.trainer(*words, "prune").wait().code, 2)


if __name__ == "__main__":
    unittest.main()
