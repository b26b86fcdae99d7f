#include "engine/cli/absent.h"

#include <algorithm>

namespace trainer::cli {
namespace {

constexpr char kEvaluation[] =
    "samples of data.validation are evaluated while a run trains; evaluation.eval_steps says when, evaluation.metrics "
    "what is measured";
constexpr char kGeneration[] =
    "evaluation.generate: true writes predictions.jsonl for the samples of data.validation; to generate more, load "
    "output_dir with transformers, whose format it has";
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
    {"merge-weights", "the model of a run is whole, and `trainer checkpoint export` makes one of a checkpoint"},
    {"export", "`trainer checkpoint export` makes a model of a checkpoint"},
    {"estimate-memory", "`trainer check` says what memory each rank needs"},
    {"test", "`trainer selftest` trains tiny models in every way on this machine"},
    {"to-fsdp2", "files of FSDP 1 and 2 train alike, as they are"},
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
