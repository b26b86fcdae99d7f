// VeRA: vectors that scale two frozen random projections, which all layers share.
#include "engine/base/errors.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/names.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

Entries vera_options() {
  using C = LoraConfig;
  return entries_of<C>(
      option("vera_dropout", &C::vera_dropout).help("Dropout on the input of the adapters.").at_least(0.0).below(1.0),
      option("d_initial", &C::d_initial).help("Initial value of the vector that scales the first projection."),
      option("projection_prng_key", &C::projection_prng_key).help("Seed of the frozen random projections."),
      option("save_projection", &C::save_projection)
          .help("Saves the projections with the adapter. false: loading it draws them again from the seed."),
      option("init_weights", &C::init_weights).help("false: adapters that change the output from the start."));
}

/// Options of LoRA that would change which weights are trained.
void check_vera(const LoraConfig& lora, Judge& judge) {
  if (lora.bias != LoraBias::kNone)
    judge.refuse("lora.bias", "lora.bias is {}, but this version trains no biases with VERA: set it to none",
                 name_of(lora.bias));
  if (!lora.exclude_modules.empty())
    judge.refuse("lora.exclude_modules",
                 "lora.exclude_modules is given, but PEFT's VeRA doesn't have it: select the layers with a pattern in "
                 "lora.target_modules");
}

void read_vera(const nlohmann::json& file, const std::string& where, LoraConfig& o) {
  if (const std::string bias = file.value("bias", "none"); bias != "none")
    throw InputError("{}: bias is '{}'; this version supports VeRA with bias none.", where, bias);
  read_ranks(file, where, o);
  read_blocks(file, o);
  o.vera_dropout = file.value("vera_dropout", o.vera_dropout);
  o.d_initial = file.value("d_initial", o.d_initial);
  o.projection_prng_key = file.value("projection_prng_key", o.projection_prng_key);
  o.save_projection = file.value("save_projection", o.save_projection);
  o.init_weights = file.value("init_weights", o.init_weights);
}

}  // namespace

const AdapterKind& vera_kind() {
  static const AdapterKind kind{.name = "VERA",
                                .title = "VeRA",
                                .defaults = {.peft_type = "VERA", .r = 256},
                                .options = vera_options(),
                                .more = {"r", "target_modules", "layers_to_transform", "layers_pattern"},
                                .overridable = {"vera_dropout"},
                                .check = check_vera,
                                .read = read_vera,
                                .splits = true};
  return kind;
}

}  // namespace trainer::config
