// Prefix tuning: learned keys and values in front of every block's own.
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

Entries prefix_options() {
  using C = LoraConfig;
  return entries_of<C>(
      option("num_virtual_tokens", &C::num_virtual_tokens).help("Tokens of the learned prompt or prefix.").at_least(0),
      option("prefix_projection", &C::prefix_projection)
          .help("Computes the prefix with a small network, which is not saved: such an adapter can't be trained "
                "further."),
      option("encoder_hidden_size", &C::encoder_hidden_size)
          .help("Width of the network that computes the prompt or prefix. 0: the model's.")
          .at_least(0));
}

void check_stages(const LoraConfig&, const AdapterMesh& mesh, Judge& judge) {
  if (mesh.pipeline > 1)
    judge.refuse(
        "lora.peft_type",
        "lora.peft_type is PREFIX_TUNING, whose prefix is computed for all blocks at once, but {}: only 1 is supported",
        mesh.pipeline_given);
}

void read_prefix(const nlohmann::json& file, const std::string& where, LoraConfig& o) {
  if (file.value("prefix_projection", false)) refuse_network_output(where, o.peft_type);
  read_virtual_tokens(file, where, o);
}

}  // namespace

const AdapterKind& prefix_tuning_kind() {
  static const AdapterKind kind{.name = "PREFIX_TUNING",
                                .title = "prefix tuning",
                                .defaults = {.peft_type = "PREFIX_TUNING"},
                                .options = prefix_options(),
                                .check_mesh = check_stages,
                                .read = read_prefix};
  return kind;
}

}  // namespace trainer::config
