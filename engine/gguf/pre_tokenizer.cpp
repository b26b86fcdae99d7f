#include "engine/gguf/pre_tokenizer.h"

#include <utility>
#include <vector>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"

namespace trainer::gguf {
namespace {

using nlohmann::json;

// The words of published tokenizers, as their tokenizer.json has them (each is followed by ByteLevel without a regex).
constexpr std::pair<const char*, const char*> kWords[] = {
    {"llama-bpe",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"qwen2",
     R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"tekken",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
    {"gpt-4o",
     R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
};

bool is_byte_level(const json& stage, bool splits) {
  return stage.value("type", "") == "ByteLevel" && stage.value("use_regex", true) == splits &&
         !stage.value("add_prefix_space", true);
}

/// The regular expression of a Split into isolated words; "" for anything else.
std::string words_of(const json& stage) {
  if (stage.value("type", "") != "Split" || stage.value("behavior", "") != "Isolated" || stage.value("invert", false))
    return "";
  const json pattern = stage.value("pattern", json::object());
  return pattern.value("Regex", "");
}

/// "" when there is none.
std::string name_of(const json& stages) {
  if (is_byte_level(stages, true)) return "gpt-2";
  if (stages.value("type", "") != "Sequence" || !stages.contains("pretokenizers")) return "";
  const json& parts = stages["pretokenizers"];
  if (!parts.is_array() || parts.size() != 2) return "";
  if (parts[0].value("type", "") == "Digits" && parts[0].value("individual_digits", false) &&
      is_byte_level(parts[1], true))
    return "smollm";
  if (!is_byte_level(parts[1], false)) return "";
  for (const auto& [name, words] : kWords)
    if (words_of(parts[0]) == words) return name;
  return "";
}

}  // namespace

std::string pre_tokenizer_name(const json& root, const std::string& file) {
  const json stages = root.value("pre_tokenizer", json()), normalizer = root.value("normalizer", json());
  const std::string name = stages.is_object() ? name_of(stages) : "";
  const bool normalizes = normalizer.is_object() && normalizer.value("type", "") != "NFC";  // it never applies NFC
  if (!name.empty() && !normalizes) return name;
  std::vector<std::string> known{"gpt-2", "smollm"};
  for (const auto& words : kWords) known.emplace_back(words.first);
  throw ConfigError(
      "{}: llama.cpp doesn't know how this tokenizer cuts a text into words ({}: {}).\n  Known: {}. Export with "
      "--format huggingface.",
      file, normalizes ? "normalizer" : "pre_tokenizer", (normalizes ? normalizer : stages).dump().substr(0, 200),
      fmt::join(known, ", "));
}

}  // namespace trainer::gguf
