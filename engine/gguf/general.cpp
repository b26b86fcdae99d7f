#include "engine/gguf/general.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"

namespace trainer::gguf {
namespace fs = std::filesystem;
namespace {

constexpr uint32_t kQuantizationVersion = 2;  // of ggml's block formats

struct Sampling {
  const char* name;  // in generation_config.json
  const char* key;
  bool whole = false;  // the number
};
constexpr Sampling kSampling[] = {{"top_k", "top_k", true},
                                  {"top_p", "top_p"},
                                  {"min_p", "min_p"},
                                  {"temperature", "temp"},
                                  {"repetition_penalty", "penalty_repeat"}};

/// "my-model" is "My Model"; words with capitals and version numbers stay.
std::string title(std::string name) {
  bool starts = true, lower = true;
  std::string text;
  std::replace(name.begin(), name.end(), '-', ' ');
  for (size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    if (starts) {
      const std::string word = name.substr(i, name.find(' ', i) - i);
      lower = std::none_of(word.begin(), word.end(), [](unsigned char letter) { return std::isupper(letter); });
      lower &= !(word[0] == 'v' && word.size() > 1 && std::isdigit(static_cast<unsigned char>(word[1])));
    }
    text += starts && lower ? static_cast<char>(std::toupper(c)) : static_cast<char>(c);
    starts = std::isdigit(c) == 0 && std::isalpha(c) == 0;
    if (c != ' ' && starts && !lower) starts = false;
  }
  return text;
}

}  // namespace

Metadata general(const std::string& architecture, const std::string& kind, const std::string& name) {
  return {{"general.architecture", architecture},
          {"general.type", kind},
          {"general.name", title(name)},
          {"general.quantization_version", kQuantizationVersion}};
}

std::string size_label(int64_t parameters) {
  double value = std::abs(static_cast<double>(parameters));
  const char* unit = "K";
  for (const char* const next : {"M", "B", "T"})
    if (value > 1e6) value /= 1e3, unit = next;
  value /= 1e3;
  const int digits = value < 9.5 ? (std::lround(value) == 0 ? 2 : 1) : 0;
  return fmt::format("{:.{}f}{}", value, digits, unit);
}

Metadata sampling(const fs::path& folder) {
  const fs::path file = folder / "generation_config.json";
  const nlohmann::json options = fs::is_regular_file(file) ? bounded_json_or_none(read_file(file)) : nlohmann::json();
  Metadata metadata;
  for (const Sampling& option : kSampling) {
    if (!options.is_object() || !options.contains(option.name) || !options[option.name].is_number()) continue;
    const nlohmann::json& number = options[option.name];
    const std::string key = std::string("general.sampling.") + option.key;
    option.whole ? metadata.emplace_back(key, number.get<int32_t>()) : metadata.emplace_back(key, number.get<float>());
  }
  return metadata;
}

}  // namespace trainer::gguf
