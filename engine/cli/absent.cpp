#include "engine/cli/absent.h"

#include <algorithm>

namespace trainer::cli {
namespace {

constexpr char kMerging[] = "`trainer merge` merges an adapter into its base model";
constexpr char kEvaluation[] =
    "`trainer eval` measures a model on the validation samples; evaluation.eval_steps sets how often a run does";
constexpr char kGenerating[] =
    "`trainer generate` answers prompts; evaluation.generate: true writes predictions for data.validation";
constexpr char kExporting[] =
    "`trainer export` writes a model for transformers or, as GGUF, for llama.cpp; a run leaves its model in output_dir";

struct Absent {
  const char* name;
  const char* instead;
};
// Commands of other programs, and names of our commands given as a flag.
constexpr Absent kAbsent[] = {
    {"train", "`trainer launch` trains"},
    {"finetune", "`trainer launch` trains"},
    {"fine-tune", "`trainer launch` trains"},
    {"predict", kGenerating},
    {"generate", kGenerating},
    {"inference", kGenerating},
    {"chat", "`trainer generate MODEL` starts a chat"},
    {"eval", kEvaluation},
    {"evaluate", kEvaluation},
    {"merge", kMerging},
    {"merge-adapter", kMerging},
    {"merge-lora", kMerging},
    {"merge-weights", "a run saves its model unsharded, and `trainer export` makes one from a checkpoint"},
    {"export", kExporting},
    {"push-to-hub", "nothing is uploaded; upload output_dir yourself"},
    {"preprocess", "`trainer launch` tokenizes before it trains; `trainer tokenize` shows the ids of a text"},
    {"cloud", "`trainer launch --emit KIND` prints what starts a run on a cluster"},
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
