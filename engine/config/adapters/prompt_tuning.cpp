// Prompt tuning: learned embeddings in front of every sample.
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/adapters/read.h"
#include "engine/config/rules/judge.h"

namespace trainer::config {
namespace {

Entries prompt_options() {
  using C = LoraConfig;
  return entries_of<C>(
      option("prompt_tuning_init", &C::prompt_tuning_init)
          .help("Initial prompt: random, or the embeddings of a text or of random tokens.")
          .one_of({"RANDOM", "TEXT", "SAMPLE_VOCAB"}),
      option("prompt_tuning_init_text", &C::prompt_tuning_init_text).help("Text of the initial prompt."));
}

void check_text(const LoraConfig& lora, Judge& judge) {
  if (lora.prompt_tuning_init == "TEXT" && lora.prompt_tuning_init_text.empty())
    judge.refuse("lora.prompt_tuning_init_text",
                 "lora.prompt_tuning_init_text is required when lora.prompt_tuning_init is TEXT");
}

}  // namespace

const AdapterKind& prompt_tuning_kind() {
  static const AdapterKind kind{.name = "PROMPT_TUNING",
                                .title = "prompt tuning",
                                .defaults = {.peft_type = "PROMPT_TUNING"},
                                .options = prompt_options(),
                                .more = {"num_virtual_tokens"},
                                .check = check_text,
                                .read = read_virtual_tokens};
  return kind;
}

}  // namespace trainer::config
