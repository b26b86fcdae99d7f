// (IA)^3: vectors that scale the outputs or inputs of layers.
#include <algorithm>

#include <fmt/ranges.h>

#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

constexpr const char* kNone = "(?!)";  // a pattern that matches nothing; an empty list means the defaults

Entries ia3_options() {
  using C = LoraConfig;
  return entries_of<C>(option("feedforward_modules", &C::feedforward_modules)
                           .help("Layers of target_modules whose input is scaled instead of their output. Empty: the "
                                 "defaults of the model type."),
                       option("init_ia3_weights", &C::init_ia3_weights).help("false: random values, for tests."));
}

void check_feedforward(const LoraConfig& lora, Judge& judge) {
  const auto& targets = lora.target_modules.names;
  if (targets.empty()) return;
  for (const std::string& name : lora.feedforward_modules.names)
    if (std::count(targets.begin(), targets.end(), name) == 0)
      judge.refuse("lora.feedforward_modules",
                   "lora.feedforward_modules has {}, which is not in lora.target_modules [{}]", name,
                   fmt::join(targets, ", "));
}

void read_ia3(const nlohmann::json& file, const std::string&, LoraConfig& o) {
  const nlohmann::json modules = file.value("feedforward_modules", nlohmann::json());
  o.feedforward_modules = to_names(modules);
  if (modules == nlohmann::json::array()) o.feedforward_modules.pattern = kNone;
}

}  // namespace

const AdapterKind& ia3_kind() {
  static const AdapterKind kind{.name = "IA3",
                                .title = "IA3",
                                .defaults = {.peft_type = "IA3"},
                                .options = ia3_options(),
                                .more = {"target_modules", "exclude_modules"},
                                .check = check_feedforward,
                                .read = read_ia3};
  return kind;
}

}  // namespace trainer::config
