// TRL's ModelConfig: the model, how its weights are stored, and LoRA.
#include <algorithm>

#include "engine/config/convert/source.h"

namespace trainer::config::trl {
namespace {

const std::vector<SameKey> kLora{{"lora_r", "lora.r"},
                                 {"lora_alpha", "lora.lora_alpha"},
                                 {"lora_dropout", "lora.lora_dropout"},
                                 {"lora_modules_to_save", "lora.modules_to_save"},
                                 {"lora_task_type", "lora.task_type"},
                                 {"use_rslora", "lora.use_rslora"},
                                 {"use_dora", "lora.use_dora"}};

/// As TRL does, a list of one name that is no name of a layer becomes a text: "all-linear" or a regular expression.
Node targets_of(const Node& given) {
  if (!given.is_list() || given.items.size() != 1 || !given.items.front().is_scalar()) return given;
  const std::string& name = given.items.front().text;
  const bool pattern = lower(name) == "all-linear" || name.find_first_of("*+?|()[]^$\\") != std::string::npos;
  return pattern ? given.items.front() : given;
}

void convert_adapter(Source& source) {
  if (!source.is_true("use_peft")) {
    const char* const none = "use_peft is not true, so every weight is trained";
    for (const auto& [key, _] : kLora)
      if (source.asks(key)) source.not_honored(key, none);
    if (source.asks("lora_target_modules")) source.not_honored("lora_target_modules", none);
    return;
  }
  source.set("use_peft", "lora.peft_type", "LORA");
  source.set_all(kLora);
  source.assume("lora_r", "lora.r", "16");
  source.assume("lora_alpha", "lora.lora_alpha", "32");
  source.assume("lora_dropout", "lora.lora_dropout", "0.05");
  const GivenKey targets = source.key("lora_target_modules");
  if (!targets.value.is_null()) source.set(targets, "lora.target_modules", targets_of(targets.value));
}

void convert_dtype(Source& source) {
  if (source.is_true("use_peft")) {
    source.set("dtype", "model.dtype");
    source.assume("dtype", "model.dtype", "float32");
  } else if (const std::string word = source.word("dtype"); word == "bfloat16" || word == "float16") {
    source.not_honored("dtype",
                       "trained weights are stored in fp32; mixed_precision says in what linear layers compute");
  }
}

void convert_quantization(Source& source) {
  const std::string config = "model.quantization_config.";
  if (!source.is_true("load_in_4bit")) return;
  source.set("load_in_4bit", config + "load_in_4bit", "true");
  source.set("bnb_4bit_quant_type", config + "bnb_4bit_quant_type");
  source.assume("bnb_4bit_quant_type", config + "bnb_4bit_quant_type", "nf4");
  source.set("use_bnb_nested_quant", config + "bnb_4bit_use_double_quant");
}

}  // namespace

void convert_model(Source& source) {
  const GivenKey model = source.key("model_name_or_path");
  if (model.value.is_scalar()) source.set(model, "model.path", Node::scalar(source.path(model.value.text), true));
  convert_adapter(source);
  convert_dtype(source);
  convert_quantization(source);
}

}  // namespace trainer::config::trl
