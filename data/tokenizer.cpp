#include "data/tokenizer.h"

#include <algorithm>
#include <system_error>

#include "data/sentencepiece_tokenizer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

/// The names in a folder, for a message.
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
  if (fs::exists(folder / "tokenizer.json")) {
    throw InputError(
        "{}: the tokenizer is there only as tokenizer.json, but this release reads spiece.model or tokenizer.model.\n"
        "Copy the SentencePiece file of the original model into the folder, or set `tokenizer.path` to a folder with "
        "one.",
        folder.string());
  }
  throw InputError(
      "{}: no tokenizer: there is neither spiece.model nor tokenizer.model in this folder, but {}.\n"
      "Set `tokenizer.path` to a folder with one, or train one with `trainer tokenize train`.",
      folder.string(), listing(folder));
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const config::TokenizerConfig& config, const std::string& model_path) {
  fs::path path = config.path.empty() ? model_path : config.path;
  if (path.empty()) throw ConfigError("tokenizer.path: it is needed when `model.path` is not given.");
  std::error_code error;
  if (fs::is_regular_file(path, error)) return open_sentencepiece(path);
  if (!fs::is_directory(path, error)) {
    throw InputError("{}: no such folder; `tokenizer.path` or `model.path` must name one with a spiece.model.",
                     path.string());
  }
  for (const char* name : {"spiece.model", "tokenizer.model"}) {
    if (fs::exists(path / name, error)) return open_sentencepiece(path / name);
  }
  fail_without_model(path);
}

void check_fits(const Tokenizer& tokenizer, int64_t vocab_size) {
  if (tokenizer.size() <= vocab_size) return;
  throw InputError(
      "the tokenizer has {} ids, but the model's embedding has {} rows (vocab_size): they do not belong together.\n"
      "Use the model's own tokenizer; for a model built from `model.config`, set vocab_size to at least {}.",
      tokenizer.size(), vocab_size, tokenizer.size());
}

void copy_files(const Tokenizer& tokenizer, const fs::path& folder) {
  for (const fs::path& file : tokenizer.files()) publish_file(folder / file.filename(), read_file(file));
}

}  // namespace trainer::data
