#include "engine/cli/absent.h"

#include <algorithm>

namespace trainer::cli {
namespace {

constexpr char kEvaluation[] =
    "a run evaluates data.validation while it trains; evaluation.eval_steps sets how often, evaluation.metrics what to "
    "measure";
constexpr char kGeneration[] =
    "evaluation.generate: true writes predictions.jsonl for data.validation; to generate more, load output_dir with "
    "transformers, whose format it uses";
constexpr char kMerging[] =
    "`trainer checkpoint export` writes an adapter in PEFT's format, and PEFT's merge_and_unload() merges it into its "
    "base model";

struct Absent {
  const char* name;
  const char* instead;
};
constexpr Absent kAbsent[] = {
    {"train", "`trainer launch` trains"},
    {"generate", kGeneration},
    {"predict", kGeneration},
    {"evaluate", kEvaluation},
    {"eval", kEvaluation},
    {"merge", kMerging},
    {"merge-adapter", kMerging},
    {"merge-lora", kMerging},
    {"merge-weights", "a run saves its model unsharded, and `trainer checkpoint export` makes one from a checkpoint"},
    {"export", "`trainer checkpoint export` makes a model from a checkpoint"},
    {"to-fsdp2", "configurations for FSDP 1 and for FSDP 2 both work unchanged"},
};

}  // namespace

std::string instead_of(const std::string& name) {
  std::string plain = name.substr(std::min(name.find_first_not_of('-'), name.size()));
  std::replace(plain.begin(), plain.end(), '_', '-');
  for (const auto& [absent, instead] : kAbsent)
    if (plain == absent) return instead;
  return "";
}

}  // namespace trainer::cli
