#include "engine/config/tables.h"

namespace trainer::config {

const Entries& model_table() {
  using C = ModelConfig;
  static const Entries entries = table<C>(
      option("path", &C::path)
          .help("Hugging Face folder with config.json and weights, or a name of the Hub that its cache on this "
                "machine holds. Instead of config.")
          .ask("Which model? (its folder, or a name of the Hugging Face Hub)")
          .path_or_hub_name(),
      json("config", &C::config)
          .help("The keys of a config.json: the model is built from scratch, its weights drawn from "
                "seed. Instead of path."),
      option("dtype", &C::dtype)
          .help("What frozen weights are stored in; trained ones are fp32. auto: as they are in the file.")
          .one_of({"auto", "float32", "bfloat16", "float16"}));
  return entries;
}

const Entries& tokenizer_table() {
  using C = TokenizerConfig;
  static const Entries entries = table<C>(
      option("path", &C::path)
          .help("Folder with a tokenizer's files, or one of them, or a name of the Hub as for model.path. Empty: "
                "model.path.")
          .ask("Where is its tokenizer? (a folder or spiece.model; `trainer tokenize train` makes one from "
               "text)")
          .path_or_hub_name());
  return entries;
}

}  // namespace trainer::config
