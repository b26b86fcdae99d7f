// Megatron's results for the corpora in tests/golden/megatron.
#pragma once

#include <string>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/files.h"
#include "tests/support/source_dir.h"

namespace trainer::data {

inline std::string golden_path(const std::string& name) {
  return source_dir() + "/tests/golden/megatron/" + name;
}

inline nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(read_file(golden_path(name + ".json")));
}

}  // namespace trainer::data
