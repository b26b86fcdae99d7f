#include "data/tokenizer_files.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "data/json_text.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr int64_t kMaxExtraIds = 1'000'000;
constexpr int64_t kT5ExtraIds = 100;

/// The object in a file; empty when there is no such file.
json read_object(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json value = parse_json(read_file(path, kMaxFileBytes), path.string());
  if (!value.is_object())
    throw InputError("{}: a JSON object is expected, but it is a {}.", path.string(), value.type_name());
  return value;
}

/// A token, written as a string or as an object with `content`.
std::string token_text(const json& config, const char* key, const std::string& fallback) {
  auto found = config.find(key);
  if (found == config.end()) return fallback;
  if (found->is_string()) return found->get<std::string>();
  if (found->is_object() && found->contains("content") && found->at("content").is_string()) {
    return found->at("content").get<std::string>();
  }
  return "";
}

/// The text at `key`; "" when there is none.
std::string name_at(const json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

bool is_t5(const json& tokenizer_config, const json& model_config, const fs::path& model_file) {
  std::string tokenizer_class = name_at(tokenizer_config, "tokenizer_class");
  if (!tokenizer_class.empty()) return tokenizer_class.starts_with("T5Tokenizer");
  std::string model_type = name_at(model_config, "model_type");
  return model_type.empty() ? model_file.filename() == "spiece.model" : model_type == "t5";
}

int64_t extra_ids(const json& config, int64_t fallback, const fs::path& path) {
  auto found = config.find("extra_ids");
  if (found == config.end()) return fallback;
  int64_t count =
      found->is_number_unsigned() ? static_cast<int64_t>(std::min<uint64_t>(found->get<uint64_t>(), INT64_MAX)) : -1;
  if (count < 0 || count > kMaxExtraIds) {
    throw InputError("{}: extra_ids is {}; a number from 0 to {} is expected.", path.string(), found->dump(),
                     kMaxExtraIds);
  }
  return count;
}

std::optional<int32_t> parse_id(const std::string& text) {
  int32_t id = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && id >= 0 && id < (1 << 24) ? std::optional(id) : std::nullopt;
}

bool is_true(const json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

/// `added_tokens_decoder`: {"32000": {"content": "<extra_id_99>", "special": true, …}, …}
std::map<std::string, SpecialToken> added_tokens(const json& config, const fs::path& path) {
  std::map<std::string, SpecialToken> added;
  auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return added;
  for (const auto& [key, token] : decoder->items()) {
    std::optional<int32_t> id = parse_id(key);
    if (!id || !token.is_object() || !token.contains("content") || !token["content"].is_string()) {
      throw InputError("{}: added_tokens_decoder has an entry \"{}\" that is no token.", path.string(), key);
    }
    added[token["content"].get<std::string>()] = {*id, is_true(token, "lstrip"), is_true(token, "rstrip")};
  }
  return added;
}

}  // namespace

TokenizerSettings read_tokenizer_settings(const fs::path& model_file) {
  fs::path folder = model_file.parent_path();
  fs::path path = folder / "tokenizer_config.json";
  json config = read_object(path);
  bool t5 = is_t5(config, read_object(folder / "config.json"), model_file);
  TokenizerSettings settings;
  settings.extra_ids = extra_ids(config, t5 ? kT5ExtraIds : 0, path);
  settings.eos_token = token_text(config, "eos_token", t5 ? "</s>" : "");
  settings.unk_token = token_text(config, "unk_token", t5 ? "<unk>" : "");
  settings.pad_token = token_text(config, "pad_token", t5 ? "<pad>" : "");
  settings.added = added_tokens(config, path);
  return settings;
}

std::vector<fs::path> tokenizer_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const char* name : {"spiece.model", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json",
                           "added_tokens.json", "tokenizer.json", "chat_template.jinja"}) {
    if (fs::is_regular_file(folder / name)) files.push_back(folder / name);
  }
  return files;
}

}  // namespace trainer::data
