// LoHa: the elementwise product of two low-rank matrices.
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

Entries loha_options() {
  using C = LoraConfig;
  return entries_of<C>(option("alpha", &C::alpha).help("Adapters are scaled by alpha / r.").above(0.0),
                       option("rank_dropout", &C::rank_dropout)
                           .help("Dropout of the rows of an adapter's matrix; only 0 is supported.")
                           .at_least(0.0)
                           .below(1.0),
                       option("module_dropout", &C::module_dropout)
                           .help("Dropout of whole adapters; only 0 is supported.")
                           .at_least(0.0)
                           .below(1.0),
                       option("use_effective_conv2d", &C::use_effective_conv2d)
                           .help("Decomposes convolutions further; only false is supported."));
}

void check_loha(const LoraConfig& lora, Judge& judge) {
  const auto refuse_dropout = [&](const char* option, double rate) {
    if (rate > 0)
      judge.refuse(std::string("lora.") + option,
                   "lora.{} is {}, but this version supports LoHa without dropout: set it to 0", option, rate);
  };
  refuse_dropout("rank_dropout", lora.rank_dropout);
  refuse_dropout("module_dropout", lora.module_dropout);
  if (lora.use_effective_conv2d)
    judge.refuse("lora.use_effective_conv2d",
                 "lora.use_effective_conv2d is true, but this version adapts no convolutions: set it to false");
}

void read_loha(const nlohmann::json& file, const std::string& where, LoraConfig& o) {
  read_ranks(file, where, o);
  read_blocks(file, o);
  o.alpha = file.value("alpha", o.alpha);
  o.alpha_pattern = file.value("alpha_pattern", o.alpha_pattern);
  o.rank_dropout = file.value("rank_dropout", o.rank_dropout);
  o.module_dropout = file.value("module_dropout", o.module_dropout);
  o.use_effective_conv2d = file.value("use_effective_conv2d", o.use_effective_conv2d);
  o.init_weights = file.value("init_weights", o.init_weights);
}

}  // namespace

const AdapterKind& loha_kind() {
  static const AdapterKind kind{.name = "LOHA",
                                .title = "LoHa",
                                .defaults = {.peft_type = "LOHA"},
                                .options = loha_options(),
                                .more = {"r", "target_modules", "exclude_modules", "layers_to_transform",
                                         "layers_pattern", "rank_pattern", "alpha_pattern", "init_weights"},
                                .check = check_loha,
                                .read = read_loha,
                                .splits = true};
  return kind;
}

}  // namespace trainer::config
