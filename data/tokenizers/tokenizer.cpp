#include "data/tokenizers/tokenizer.h"

#include <algorithm>
#include <system_error>

#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/config/machine/hub_folder.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

/// Lists the names in a folder, for a message.
std::string listing(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  constexpr size_t kShown = 8;
  bool all = names.size() <= kShown;
  if (!all) names.resize(kShown);
  return names.empty() ? "nothing" : fmt::format("{}{}", fmt::join(names, ", "), all ? "" : ", …");
}

[[noreturn]] void fail_without_model(const fs::path& folder) {
  throw InputError(
      "{}: no tokenizer: the folder has no tokenizer.json, spiece.model, tokenizer.model, vocab.json or vocab.txt; it "
      "has {}.\n"
      "Set `tokenizer.path` to a folder with one, or train one with `trainer tokenize train`.",
      folder.string(), listing(folder));
}

std::unique_ptr<Tokenizer> open_file(const fs::path& file) {
  if (file.filename() == "vocab.json" || file.extension() == ".txt") return open_vocab_files(file);
  if (file.extension() == ".json") return open_tokenizer_json(file);
  return open_sentencepiece(file);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const config::TokenizerConfig& config, const std::string& model_path) {
  fs::path path = config.path.empty() ? model_path : config.path;
  if (path.empty()) throw ConfigError("tokenizer.path: required when `model.path` is not set.");
  std::error_code error;
  if (fs::is_regular_file(path, error)) return open_file(path);
  if (!fs::exists(path, error) && error) throw InputError("{}: {}", path.string(), error.message());
  if (!fs::is_directory(path, error)) {
    throw InputError("{}: no such folder; `tokenizer.path` or `model.path` must be a folder with a tokenizer.\n  {}",
                     path.string(), config::hub_hint(path.string()));
  }
  for (const char* name : {"tokenizer.json", "spiece.model", "tokenizer.model", "vocab.json", "vocab.txt"}) {
    if (fs::exists(path / name, error)) return open_file(path / name);
  }
  fail_without_model(path);
}

void check_fits(const Tokenizer& tokenizer, int64_t vocab_size) {
  if (tokenizer.size() <= vocab_size) return;
  throw InputError(
      "the tokenizer {} has {} ids, but the model's embedding has {} rows (vocab_size): they do not match.\n"
      "Use the model's own tokenizer.",
      tokenizer.files().empty() ? "" : tokenizer.files().front().string(), tokenizer.size(), vocab_size);
}

TokenOffsets Tokenizer::encode_with_offsets(std::string_view, bool) const {
  throw InternalError("this tokenizer has no offsets");
}

const ChatTemplates& Tokenizer::chat_templates() const {
  static const ChatTemplates kNone;
  return kNone;
}

const std::string* Tokenizer::chat_template(std::string_view name) const {
  auto found = chat_templates().find(name);
  return found == chat_templates().end() ? nullptr : &found->second;
}

size_t trailing_special_tokens(const Tokenizer& tokenizer) {
  const std::string probe = "a";
  const std::vector<int32_t> inner = tokenizer.encode(probe, false), outer = tokenizer.encode(probe, true);
  const auto found = std::search(outer.begin(), outer.end(), inner.begin(), inner.end());
  return found == outer.end() ? 0 : static_cast<size_t>(outer.end() - found) - inner.size();
}

}  // namespace trainer::data
