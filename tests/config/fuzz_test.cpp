// Damaged files never cause a crash or any error other than ConfigError.
#include <random>

#include "tests/config/given.h"

namespace trainer::config {
namespace {

using Fuzz = Given;

const std::string kWhole =
    "compute_environment: LOCAL_MACHINE\n"
    "distributed_type: FSDP\n"
    "fsdp_config: {fsdp_sharding_strategy: 1, fsdp_transformer_layer_cls_to_wrap: 'T5Block,A'}\n"
    "mixed_precision: \"no\"\n"
    "num_processes: 2\n"
    "use_cpu: true\n"
    "gpu_ids: all\n"
    "model: &m\n"
    "  config: {model_type: t5, d_model: 1e2, x: [1, ~, {y: 'z'}]}\n"
    "tokenizer:\n"
    "  path: ${HOME:-/t}\n"
    "data:\n"
    "  train:\n"
    "    path:\n"
    "    - a.txt\n"
    "    - >-\n"
    "      b\n"
    "  validation: {fraction: 0.1}\n"
    "lora: {r: 8, target_modules: [q, v], lora_alpha: 32}\n"
    "training: {learning_rate: 3.0e-4, max_steps: -1}\n"
    "checkpoint: {resume_from_checkpoint: auto}\n"
    "logging: {report_to: [tensorboard]}\n";

std::string damaged(std::string text, std::mt19937& random) {
  static const std::string letters = "[]{}:,-'\"&*!|>#%@`~ \n\t\r$\\?=<0123456789eE.abn\x80\xff\x01\x04";
  const int edits = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < edits && !text.empty(); ++i) {
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(text.size() - at, 1 + random() % 12);
    switch (random() % 5) {
      case 0:
        text[at] = letters[random() % letters.size()];
        break;
      case 1:
        text.insert(at, 1 + random() % 3, letters[random() % letters.size()]);
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(random() % text.size(), text.substr(at, length * 4));
        break;
      default:
        text.resize(at);
        break;
    }
  }
  return text;
}

TEST_F(Fuzz, DamagedFilesThrowOnlyConfigErrors) {
  ASSERT_EQ(problems(kWhole), "");
  std::mt19937 random(7);
  int accepted = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = damaged(kWhole, random);
    try {
      const Plan plan = resolve(text);
      ASSERT_EQ(to_text(parse_plan(to_text(plan))), to_text(plan)) << text;
      ++accepted;
    } catch (const ConfigError&) {
    } catch (const std::exception& error) {
      FAIL() << error.what() << "\nfor\n" << text;
    }
  }
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace trainer::config
