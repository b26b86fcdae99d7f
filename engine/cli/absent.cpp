#include "engine/cli/absent.h"

#include <algorithm>

namespace trainer::cli {
namespace {

struct Absent {
  const char* name;
  const char* instead;
};
constexpr Absent kAbsent[] = {
    {"train", "`trainer launch` trains"},
    {"predict", "`trainer generate` answers the prompts of a file"},
    {"chat", "`trainer generate MODEL` starts a chat"},
    {"evaluate", "`trainer eval` measures a model on the validation samples"},
    {"merge-adapter", "`trainer merge` merges an adapter into its base model"},
    {"merge-lora", "`trainer merge` merges an adapter into its base model"},
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
