#include "engine/config/tables.h"

namespace trainer::config {

const Entries& model_table() {
  using C = ModelConfig;
  static const Entries entries = table<C>(
      option("path", &C::path)
          .help("Hugging Face folder with config.json and weights, or a Hub name that is in this machine's Hub cache. "
                "Excludes config.")
          .ask("Which model? (its folder, or its name on the Hugging Face Hub)")
          .path_or_hub_name(),
      free_form("config", &C::config)
          .help("The keys of a config.json: the model is built from scratch, with weights initialized from seed. "
                "Excludes path."),
      option("dtype", &C::dtype)
          .help("Storage dtype of frozen weights; trained weights are stored in fp32. auto: the dtype in the file. "
                "Linear layers are never stored in a wider dtype than mixed_precision computes in.")
          .one_of({"auto", "float32", "bfloat16", "float16"}),
      section("quantization_config", &C::quantization_config, quantization_table())
          .help("Frozen weights in 4 bits: transformers' BitsAndBytesConfig. Needs adapters (lora)."));
  return entries;
}

const Entries& tokenizer_table() {
  using C = TokenizerConfig;
  static const Entries entries =
      table<C>(option("path", &C::path)
                   .help("Folder with a tokenizer's files, one of these files, or a Hub name as for model.path. Empty: "
                         "model.path.")
                   .ask("Where is its tokenizer? (`trainer tokenize train` trains one on text)")
                   .path_or_hub_name());
  return entries;
}

}  // namespace trainer::config
