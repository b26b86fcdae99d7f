"""`trainer export --format gguf`, read back by llama.cpp's package `gguf`, tensor by tensor."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

from support import EndToEnd

PYTHON = os.environ.get("GGUF_PYTHON", sys.executable)
NEEDED = "import gguf, numpy"
HAS_GGUF = subprocess.run([PYTHON, "-c", NEEDED], capture_output=True, check=False).returncode == 0
MODELS = pathlib.Path(__file__).resolve().parents[1] / "golden/gguf"
# The largest difference of a value, as a part of the tensor's largest value.
ROUNDING = {"f32": 0, "f16": 2**-11, "bf16": 2**-8, "q8_0": 0.5 / 127 + 2**-11}


@unittest.skipUnless(HAS_GGUF, "gguf is not installed (pip install gguf), and GGUF_PYTHON doesn't name a Python that has it")
class GgufReader(EndToEnd):
    def differences(self, folder):
        """Of the folder's files of each type."""
        files = [self.folder / f"{folder.name}-{kind}.gguf" for kind in ROUNDING]
        for kind, file in zip(ROUNDING, files):
            run = self.trainer("export", folder, file, "--format", "gguf", "--type", kind).wait()
            self.assertEqual(run.code, 0, run.out + run.err)
        script = pathlib.Path(__file__).with_name("gguf_tensors.py")
        done = subprocess.run([PYTHON, script, folder, *files], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return zip(ROUNDING.items(), json.loads(done.stdout))

    def check_family(self, name):
        folder = MODELS / name
        for (kind, rounding), found in self.differences(folder):
            self.assertGreater(len(found), 10)
            for tensor, (theirs, difference, largest) in found.items():
                with self.subTest(name, kind=kind, tensor=tensor):
                    if tensor == "rope_freqs.weight":  # llama.cpp's own, of LLaMA 3
                        continue
                    self.assertIsNotNone(theirs)
                    self.assertLessEqual(difference, rounding * largest + 1e-12)

    def test_families_of_llama(self):
        for name in ("llama", "llama3", "qwen2", "qwen3"):
            self.check_family(name)

    def test_other_families(self):
        for name in ("gemma", "gemma2", "gemma3", "gpt2"):
            self.check_family(name)


if __name__ == "__main__":
    unittest.main()
