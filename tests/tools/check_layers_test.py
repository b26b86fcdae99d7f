"""Runs tools/check_layers.py on small trees, each with one fault."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "tools" / "check_layers.py"
GOOD = {
    "engine/base/CMakeLists.txt": "trainer_library(base SOURCES log.cpp)",
    "engine/base/log.cpp": '#include "engine/base/log.h"\n#include <string>',
    "engine/base/log.h": "#pragma once",
    "engine/config/CMakeLists.txt": "trainer_library(config SOURCES plan.cpp # the plan\n  DEPENDS base)",
    "engine/config/plan/plan.cpp": '#include "engine/base/log.h"\n#include <yaml-cpp/yaml.h>',
    "models/CMakeLists.txt": "trainer_library(models SOURCES t5/model.cpp DEPENDS config TORCH)",
    "models/t5/model.cpp": '#include "engine/base/log.h"\n#include <ATen/core/Tensor.h>',
}


def check(changes):
    with tempfile.TemporaryDirectory() as folder:
        for name, text in {**GOOD, **changes}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        answer = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True, check=False)
        return answer.returncode, answer.stdout


class CheckLayers(unittest.TestCase):
    def refuses(self, changes, *words):
        code, output = check(changes)
        self.assertEqual(code, 1)
        for word in words:
            self.assertIn(word, output)

    def test_accepts_own_layer_and_layers_below(self):
        self.assertEqual(check({}), (0, ""))

    def test_refuses_include_of_layer_above(self):
        self.refuses({"engine/base/log.cpp": '\n#include "models/t5/model.cpp"'}, "engine/base/log.cpp:2:", "models")

    def test_refuses_include_not_by_path_from_root(self):
        self.refuses({"engine/base/log.cpp": '#include "log.h"'}, "by their path from the root")

    def test_refuses_missing_header(self):
        self.refuses({"engine/base/log.cpp": '#include "engine/base/gone.h"'}, "no such file")

    def test_refuses_cycle(self):
        self.refuses({"engine/base/CMakeLists.txt": "trainer_library(base SOURCES log.cpp DEPENDS models)"},
                     "depends on itself")

    def test_refuses_unknown_layer(self):
        self.refuses({"engine/base/CMakeLists.txt": "trainer_library(base SOURCES log.cpp DEPENDS bass)"},
                     "bass, which isn't a layer")

    def test_refuses_torch_in_torch_free_folder(self):
        self.refuses({"engine/config/plan/plan.cpp": "#include <torch/types.h>"}, "engine/config/plan/plan.cpp:1:", "torch")

    def test_refuses_torch_in_layer_not_marked(self):
        self.refuses({"models/CMakeLists.txt": "trainer_library(models SOURCES t5/model.cpp DEPENDS config)"},
                     "not marked TORCH")

    def test_refuses_libraries_outside_their_folder(self):
        for header, room in (("yaml-cpp/yaml.h", "engine/config"), ("sentencepiece_processor.h", "data"),
                             ("torch/csrc/distributed/c10d/Store.hpp", "engine/dist")):
            with self.subTest(header):
                self.refuses({"models/t5/model.cpp": f"#include <{header}>"}, f"belongs in {room}")

    def test_refuses_json_of_any_depth(self):
        line = "auto a = nlohmann::json::parse(text);"
        self.refuses({"models/t5/model.cpp": line}, "models/t5/model.cpp:1:", "bounded_json")
        self.assertEqual(check({"data/json/parse_json.cpp": line}), (0, ""))


if __name__ == "__main__":
    unittest.main()
