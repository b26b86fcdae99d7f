// Which weights decay, compared with the Hugging Face Trainer (`not_decayed` of tests/golden/make_gpt2.py,
// make_bert.py).
#include <algorithm>
#include <fstream>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/optim/parameter_rules.h"
#include "engine/tensorfile/safetensors_file.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

class Decay : public ::testing::TestWithParam<const char*> {};

TEST_P(Decay, MatchesTheTrainer) {
  const std::string folder = source_dir() + "/tests/golden/" + GetParam();
  std::ifstream in(folder + "/expected.json");
  const auto expected = nlohmann::json::parse(in)["not_decayed"].get<std::vector<std::string>>();
  std::vector<std::string> found;
  for (const std::string& name : tensorfile::SafetensorsFile(folder + "/model.safetensors").names())
    if (!optim::decays(name)) found.push_back(name);
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, expected);
}

INSTANTIATE_TEST_SUITE_P(Families, Decay,
                         ::testing::Values("gpt2/causal", "gpt2/variant", "gpt2/classes", "bert/named",
                                           "bert/counted"));

}  // namespace
}  // namespace trainer::testing
