#include "data/tokenizers/save_tokenizer.h"

#include <algorithm>
#include <utility>

#include <nlohmann/json.hpp>

#include "data/json/parse_json.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

using ordered_json = nlohmann::ordered_json;

bool has_file(const std::vector<TokenizerFile>& files, std::string_view name) {
  return std::any_of(files.begin(), files.end(), [&](const TokenizerFile& file) { return file.name == name; });
}

/// The file called `name`, which is added when there is none.
TokenizerFile& file_named(std::vector<TokenizerFile>& files, const char* name) {
  auto found = std::find_if(files.begin(), files.end(), [&](const TokenizerFile& file) { return file.name == name; });
  if (found != files.end()) return *found;
  return files.emplace_back(TokenizerFile{name, ""});
}

void set_default(ordered_json& config, const char* key, const ordered_json& value) {
  if (!config.contains(key) || config[key].is_null()) config[key] = value;
}

std::string class_in(const ordered_json& config) {
  auto found = config.find("tokenizer_class");
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

/// For these classes, transformers 5 ignores tokenizer.json and builds the stages itself.
bool ignores_tokenizer_json(const std::string& tokenizer_class) {
  return tokenizer_class.starts_with("Llama") || tokenizer_class.starts_with("T5");
}

/// Sets the class that reads tokenizer.json as it is, and writes out the settings that the old class implied.
void name_plain_class(ordered_json& config, const Tokenizer& tokenizer) {
  if (class_in(config).starts_with("Llama")) set_default(config, "padding_side", "left");
  config["tokenizer_class"] = "PreTrainedTokenizerFast";
  set_default(config, "model_input_names", ordered_json::array({"input_ids", "attention_mask"}));
  set_default(config, "clean_up_tokenization_spaces", false);
  const std::pair<const char*, int32_t> roles[] = {{"bos_token", tokenizer.bos_id()},
                                                   {"eos_token", tokenizer.eos_id()},
                                                   {"unk_token", tokenizer.unk_id()},
                                                   {"pad_token", tokenizer.pad_id()}};
  for (const auto& [key, id] : roles) {
    if (id >= 0) set_default(config, key, tokenizer.piece_of(id));
  }
  const std::vector<int32_t> around = tokenizer.encode("");  // set both keys: a missing one counts as false
  const bool bos = !around.empty() && around.front() == tokenizer.bos_id();
  set_default(config, "add_bos_token", bos);
  set_default(config, "add_eos_token", around.size() > (bos ? 1u : 0u));
}

/// One template as a string, several as [{"name", "template"}].
ordered_json templates_in_config(const ChatTemplates& templates) {
  if (templates.size() == 1 && templates.contains("default")) return templates.at("default");
  ordered_json list = ordered_json::array();
  for (const auto& [name, text] : templates) list.push_back({{"name", name}, {"template", text}});
  return list;
}

}  // namespace

SavedTokenizer::SavedTokenizer(const Tokenizer& tokenizer, std::string chat_template)
    : tokenizer_(tokenizer), chat_template_(std::move(chat_template)) {
  for (const auto& path : tokenizer.files()) files_.push_back({path.filename().string(), read_file(path)});
}

const std::vector<TokenizerFile>& SavedTokenizer::files() const& {
  std::call_once(once_, [this] { files_ = extended(files_); });
  return files_;
}

std::vector<TokenizerFile> SavedTokenizer::extended(std::vector<TokenizerFile> files) const {
  ChatTemplates templates = tokenizer_.chat_templates();
  if (!chat_template_.empty()) templates["default"] = chat_template_;
  const std::string made = tokenizer_.tokenizer_json();
  if (!made.empty()) file_named(files, "tokenizer.json").content = made;

  TokenizerFile& config_file = file_named(files, "tokenizer_config.json");
  ordered_json config = ordered_json::object();
  if (!config_file.content.empty()) {
    parse_json(config_file.content, config_file.name);  // for its error messages
    config = bounded_json<ordered_json>(config_file.content);
  }
  const ordered_json before = config;
  const bool given = has_file(files, "tokenizer.json") && ignores_tokenizer_json(class_in(config));
  if (!made.empty() || given) name_plain_class(config, tokenizer_);
  if (!templates.empty()) config["chat_template"] = templates_in_config(templates);
  if (config != before) config_file.content = config.dump(2) + "\n";
  if (config_file.content.empty()) files.pop_back();  // no settings
  for (TokenizerFile& file : files) {                 // takes precedence over tokenizer_config.json
    if (file.name == "chat_template.jinja") file.content = templates["default"];
  }
  return files;
}

void save_tokenizer(const Tokenizer& tokenizer, const std::string& chat_template, const std::filesystem::path& folder) {
  const SavedTokenizer saved(tokenizer, chat_template);
  for (const TokenizerFile& file : saved.files()) publish_file(folder / file.name, file.content);
}

}  // namespace trainer::data
