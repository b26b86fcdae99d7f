#include "data/tokenizers/tokenizer_files.h"

#include <algorithm>
#include <charconv>

#include "data/json/parse_json.h"
#include "data/tokenizers/text/characters.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxFileBytes = 64 << 20;
constexpr int64_t kMaxExtraIds = 1'000'000;
constexpr int64_t kT5ExtraIds = 100;
constexpr int32_t kMaxId = (1 << 24) - 1;

/// The object in a file; empty when there is no such file.
json read_object(const fs::path& path) {
  if (!fs::exists(path)) return json::object();
  json value = parse_json(read_file(path, kMaxFileBytes), path.string());
  if (!value.is_object())
    throw InputError("{}: expected a JSON object, found type {}.", path.string(), value.type_name());
  return value;
}

/// The text of a token, which is a string or an object with `content`; nothing when it is neither.
std::optional<std::string> token_text(const json& token) {
  if (token.is_string()) return token.get<std::string>();
  if (token.is_object() && token.contains("content") && token["content"].is_string()) {
    return token["content"].get<std::string>();
  }
  return std::nullopt;
}

/// The string at `key`; "" when there is none.
std::string name_at(const json& object, const char* key) {
  auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::optional<bool> flag_at(const json& object, const char* key) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_boolean()) return std::nullopt;
  return found->get<bool>();
}

bool is_t5(const std::string& tokenizer_class, const json& model_config, const fs::path& model_file) {
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
    throw InputError("{}: extra_ids is {}; expected an integer from 0 to {}.", path.string(), found->dump(),
                     kMaxExtraIds);
  }
  return count;
}

std::optional<int32_t> parse_id(const std::string& text) {
  int32_t id = -1;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && id >= 0 && id <= kMaxId ? std::optional(id) : std::nullopt;
}

/// `added_tokens_decoder` of tokenizer_config.json: {"32000": {"content": "<extra_id_99>", "special": true, …}, …}
void read_added_tokens_decoder(const json& config, const fs::path& path, TokenizerSettings& settings) {
  auto decoder = config.find("added_tokens_decoder");
  if (decoder == config.end() || !decoder->is_object()) return;
  JsonProblems problems;
  for (const auto& [key, token] : decoder->items()) {
    std::optional<int32_t> id = parse_id(key);
    if (!id || !token.is_object() || !token_text(token)) {
      throw InputError("{}: added_tokens_decoder has an entry \"{}\" that isn't a token.", path.string(), key);
    }
    settings.added[*id] = read_added_token(JsonView(token, problems));
  }
  problems.throw_if_any(path.string());
}

/// added_tokens.json: {"<|im_start|>": 151644, …}
void read_added_tokens_file(const fs::path& path, TokenizerSettings& settings) {
  const json tokens = read_object(path);  // must outlive the loop
  for (const auto& [content, id] : tokens.items()) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > kMaxId) {
      throw InputError("{}: \"{}\" has the id {}; expected an integer from 0 to {}.", path.string(), content, id.dump(),
                       kMaxId);
    }
    settings.added.try_emplace(id.get<int32_t>(), AddedToken{.content = content});
  }
}

/// Reads the tokens in `object`, a tokenizer_config.json or special_tokens_map.json. Does not overwrite settings.
void read_special_tokens(const json& object, TokenizerSettings& settings) {
  auto take = [&](const char* key, std::string& name) {
    auto found = object.find(key);
    if (found != object.end() && name.empty()) name = token_text(*found).value_or("");
  };
  take("bos_token", settings.bos_token);
  take("eos_token", settings.eos_token);
  take("unk_token", settings.unk_token);
  take("pad_token", settings.pad_token);
  auto add_other = [&](const json& token) {
    std::string text = token_text(token).value_or("");
    auto& others = settings.other_special;
    if (!text.empty() && std::find(others.begin(), others.end(), text) == others.end()) others.push_back(text);
  };
  for (const char* key : {"sep_token", "cls_token", "mask_token"}) {
    if (object.contains(key)) add_other(object[key]);
  }
  for (const char* key : {"additional_special_tokens", "extra_special_tokens"}) {
    if (!object.contains(key) || !object[key].is_structured()) continue;
    for (const json& token : object[key]) add_other(token);
  }
}

/// The end-of-sequence id, or the first of several, from a model's config.json or generation_config.json.
int32_t eos_id(const json& config) {
  auto found = config.find("eos_token_id");
  if (found == config.end()) return -1;
  const json& id = found->is_array() && !found->empty() ? found->front() : *found;
  return id.is_number_unsigned() && id.get<uint64_t>() <= kMaxId ? id.get<int32_t>() : -1;
}

/// One template as a string, or several as [{"name", "template"}]; template files take precedence.
void read_chat_templates(const json& config, const fs::path& folder, TokenizerSettings& settings) {
  auto& templates = settings.chat_templates;
  auto written = config.find("chat_template");
  if (written != config.end() && written->is_string()) templates["default"] = written->get<std::string>();
  if (written != config.end() && written->is_array()) {
    for (const json& entry : *written) {
      if (!entry.is_object()) continue;
      std::string name = name_at(entry, "name");
      if (!name.empty()) templates[name] = name_at(entry, "template");
    }
  }
  if (fs::exists(folder / "chat_template.jinja")) {
    templates["default"] = read_file(folder / "chat_template.jinja", kMaxFileBytes);
  }
  std::error_code error;
  for (fs::directory_iterator entry(folder / "additional_chat_templates", error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().extension() != ".jinja") continue;
    templates[entry->path().stem().string()] = read_file(entry->path(), kMaxFileBytes);
  }
}

}  // namespace

std::vector<std::string> TokenizerSettings::special_tokens() const {
  std::vector<std::string> all = {bos_token, eos_token, unk_token, pad_token};
  all.insert(all.end(), other_special.begin(), other_special.end());
  std::erase(all, "");
  return all;
}

TokenizerSettings read_tokenizer_settings(const fs::path& model_file) {
  fs::path folder = model_file.parent_path();
  fs::path path = folder / "tokenizer_config.json";
  json config = read_object(path);
  json model_config = read_object(folder / "config.json");
  TokenizerSettings settings;
  settings.tokenizer_class = name_at(config, "tokenizer_class");
  bool t5 = is_t5(settings.tokenizer_class, model_config, model_file);
  settings.extra_ids = extra_ids(config, t5 ? kT5ExtraIds : 0, path);
  read_special_tokens(config, settings);
  read_special_tokens(read_object(folder / "special_tokens_map.json"), settings);
  auto default_to = [&](const char* key, std::string& name, const char* value) {
    if (t5 && name.empty() && !config.contains(key)) name = value;
  };
  default_to("eos_token", settings.eos_token, "</s>");
  default_to("unk_token", settings.unk_token, "<unk>");
  default_to("pad_token", settings.pad_token, "<pad>");
  read_added_tokens_decoder(config, path, settings);
  read_added_tokens_file(folder / "added_tokens.json", settings);
  settings.eos_id = eos_id(read_object(folder / "generation_config.json"));
  if (settings.eos_id < 0) settings.eos_id = eos_id(model_config);
  settings.add_bos = flag_at(config, "add_bos_token");
  settings.add_eos = flag_at(config, "add_eos_token");
  settings.legacy = flag_at(config, "legacy").value_or(true);
  settings.add_prefix_space = flag_at(config, "add_prefix_space").value_or(false);
  settings.lowercase = flag_at(config, "do_lower_case").value_or(true);
  settings.split_ideographs = flag_at(config, "tokenize_chinese_chars").value_or(true);
  settings.strip_accents = flag_at(config, "strip_accents");
  read_chat_templates(config, folder, settings);
  return settings;
}

std::vector<fs::path> tokenizer_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const char* name :
       {"spiece.model", "tokenizer.model", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "tokenizer.json", "vocab.json", "merges.txt", "vocab.txt", "chat_template.jinja"}) {
    if (fs::is_regular_file(folder / name)) files.push_back(folder / name);
  }
  return files;
}

}  // namespace trainer::data
