// P-tuning: a prompt computed by a small network.
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

Entries encoder_options() {
  using C = LoraConfig;
  return entries_of<C>(option("encoder_reparameterization_type", &C::encoder_reparameterization_type)
                           .help("Network that computes the prompt.")
                           .one_of({"MLP", "LSTM"}),
                       option("encoder_num_layers", &C::encoder_num_layers).help("Layers of the LSTM.").at_least(1),
                       option("encoder_dropout", &C::encoder_dropout)
                           .help("Dropout of the LSTM; only 0 is supported.")
                           .at_least(0.0)
                           .below(1.0));
}

void check_dropout(const LoraConfig& lora, Judge& judge) {
  if (lora.encoder_dropout > 0)
    judge.refuse(
        "lora.encoder_dropout",
        "lora.encoder_dropout is {}, but this version supports no dropout in the prompt's network: set it to 0",
        lora.encoder_dropout);
}

}  // namespace

const AdapterKind& p_tuning_kind() {
  static const AdapterKind kind{.name = "P_TUNING",
                                .title = "p-tuning",
                                .defaults = {.peft_type = "P_TUNING"},
                                .options = encoder_options(),
                                .more = {"num_virtual_tokens", "encoder_hidden_size"},
                                .check = check_dropout};
  return kind;
}

}  // namespace trainer::config
