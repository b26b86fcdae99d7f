#include "engine/gguf/vocabulary.h"

#include <map>
#include <memory>

#include <nlohmann/json.hpp>

#include "data/json/parse_json.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/sentencepiece_check.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_files.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/gguf/pre_tokenizer.h"

namespace trainer::gguf {
namespace fs = std::filesystem;
namespace {

using data::PieceType;  // with the numbers of GGUF's token types
using nlohmann::json;

constexpr const char* kSpace = "\u2581";
constexpr float kAddedScore = -1000, kAbsentScore = -10000;  // not a result of merges

/// The tokens by id, which is their index.
struct Tokens {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;

  explicit Tokens(int64_t rows) : scores(rows, kAbsentScore), types(rows, static_cast<int32_t>(PieceType::kUnused)) {
    for (int64_t i = 0; i < rows; ++i) texts.push_back(fmt::format("[PAD{}]", i));
  }
  void set(size_t id, std::string text, float score, PieceType type) {
    if (id >= texts.size()) return;  // the embedding lacks it
    texts[id] = std::move(text);
    scores[id] = score;
    types[id] = static_cast<int32_t>(type);
  }
};

/// Some published tokenizers don't mark all their control tokens as special.
bool looks_special(const std::string& text) {
  const auto between = [&](const char* begin, const char* end) {
    return text.starts_with(begin) && text.ends_with(end);
  };
  return text == "<pad>" || text == "<mask>" || text == "<2mass>" || text == "[@BOS@]" || between("<|", "|>") ||
         between("<\uFF5C", "\uFF5C>") || between("<unused", ">");
}

std::string with_spaces(std::string text) {
  for (size_t at = text.find(kSpace); at != std::string::npos; at = text.find(kSpace, at))
    text.replace(at, std::string_view(kSpace).size(), " ");
  return text;
}

void set_added(Tokens& tokens, size_t id, const std::string& text, bool special) {
  const bool control = special || looks_special(text);
  tokens.set(id, control ? text : with_spaces(text), kAddedScore,
             control ? PieceType::kControl : PieceType::kUserDefined);
}

/// Converts one folder's tokenizer.
class Conversion {
 public:
  Conversion(const fs::path& folder, int64_t rows)
      : folder_(folder), tokenizer_(data::open_tokenizer({}, folder.string())), tokens_(rows) {
    data::check_fits(*tokenizer_, rows);
  }

  Metadata run() {
    if (const fs::path model = sentencepiece_file(); !model.empty())
      from_sentencepiece(model);
    else
      from_json();
    add_special_ids();
    add_chat_templates();
    return std::move(metadata_);
  }

 private:
  /// It has the scores that tokenizer.json lacks.
  fs::path sentencepiece_file() const {
    for (const char* const name : {"tokenizer.model", "spiece.model"})
      if (fs::is_regular_file(folder_ / name)) return folder_ / name;
    return {};
  }

  void from_sentencepiece(const fs::path& file) {
    const std::string bytes = read_file(file);
    data::check_sentencepiece_model(bytes, file.string());
    const data::SentencePieceModel model = data::read_sentencepiece_model(bytes);
    for (size_t id = 0; id < model.pieces.size(); ++id) {
      const auto& piece = model.pieces[id];
      const bool is_word = piece.type == PieceType::kUserDefined;
      tokens_.set(id, std::string(piece.text), piece.score, is_word ? PieceType::kNormal : piece.type);
    }
    const fs::path with_added = folder_ / "tokenizer.json";
    if (fs::is_regular_file(with_added)) add_added(data::parse_json(read_file(with_added), with_added.string()));
    for (const auto& [id, token] : data::read_tokenizer_settings(file).added)
      set_added(tokens_, static_cast<size_t>(id), token.content, token.special);
    const bool unigram = model.model_type == data::SentencePieceModel::kUnigram;
    add_tokens(unigram ? "t5" : "llama", "default");
    if (!unigram) return;
    add("ggml.remove_extra_whitespaces", model.remove_extra_whitespaces);
    if (!model.charsmap.empty())
      add("ggml.precompiled_charsmap", std::vector<uint8_t>(model.charsmap.begin(), model.charsmap.end()));
  }

  /// The file that open_tokenizer() reads when there is no SentencePiece model.
  fs::path json_file() const {
    for (const char* const name : {"tokenizer.json", "vocab.json"})
      if (fs::is_regular_file(folder_ / name)) return folder_ / name;
    return folder_ / "vocab.txt";
  }

  void from_json() {
    const fs::path file = json_file();
    const json root = root_of(file);
    const json& model = root.at("model");
    if (model.value("type", "BPE") != "BPE")
      throw ConfigError(
          "{}: llama.cpp reads a tokenizer of the type {} only from a SentencePiece model.\n  Put its spiece.model or "
          "tokenizer.model into the folder, or export with --format huggingface.",
          file.string(), model.value("type", ""));
    const bool of_sentencepiece = model.value("byte_fallback", false);
    for (const auto& [text, id] : model.at("vocab").items()) tokens_.set(id.get<size_t>(), text, 0, PieceType::kNormal);
    if (of_sentencepiece) set_scores(model);
    add_added(root);
    if (of_sentencepiece) return add_tokens("llama", "default");
    tokens_.scores.clear();
    add_tokens("gpt2", pre_tokenizer_name(root, file.string()));
    add("ggml.merges", merges_of(model));
  }

  static json root_of(const fs::path& file) {
    if (file.filename() == "tokenizer.json") return data::parse_json(read_file(file), file.string());
    data::TokenizerSettings settings = data::read_tokenizer_settings(file);
    return data::read_vocab_files(file, settings);
  }

  /// A merge, which tokenizer.json writes as "a b" or ["a", "b"]. Spaces in a part are written as the byte alphabet
  /// does.
  static std::string merge_of(const json& merge) {
    if (merge.is_string()) return merge.get<std::string>();
    std::string both;
    for (const json& part : merge) {
      both += both.empty() ? "" : " ";
      for (const char c : part.get<std::string>()) both += c == ' ' ? std::string("\u0120") : std::string(1, c);
    }
    return both;
  }

  static std::vector<std::string> merges_of(const json& model) {
    std::vector<std::string> merges;
    for (const json& merge : model.at("merges")) merges.push_back(merge_of(merge));
    return merges;
  }

  /// llama.cpp joins the pair whose piece has the highest score: the rank of its first merge, negated.
  void set_scores(const json& model) {
    std::map<std::string, float> scores;
    float rank = 0;
    for (const std::string& merge : merges_of(model)) {
      const size_t space = merge.find(' ');
      scores.try_emplace(merge.substr(0, space) + merge.substr(space + 1), -rank);
      ++rank;
    }
    const std::string unknown =
        model.value("unk_token", json()).is_string() ? model["unk_token"].get<std::string>() : "";
    for (size_t id = 0; id < tokens_.texts.size(); ++id) {
      const std::string& text = tokens_.texts[id];
      if (tokens_.types[id] != static_cast<int32_t>(PieceType::kNormal)) continue;
      const auto score = scores.find(text);
      tokens_.scores[id] = score != scores.end() ? score->second : -rank;
      const bool byte = text.size() == 6 && text.starts_with("<0x") && text.ends_with(">");
      if (byte || text == unknown)
        tokens_.types[id] = static_cast<int32_t>(byte ? PieceType::kByte : PieceType::kUnknown);
    }
  }

  /// The added tokens of a tokenizer.json, with the ids that the tokenizer gives them.
  void add_added(const json& root) {
    for (const json& token : root.value("added_tokens", json::array())) {
      const std::string text = token.value("content", "");
      const auto id = tokenizer_->id_of(text);
      if (id) set_added(tokens_, static_cast<size_t>(*id), text, token.value("special", false));
    }
  }

  void add_tokens(const char* model, const std::string& pre) {
    add("ggml.model", std::string(model));
    add("ggml.pre", pre);
    add("ggml.tokens", tokens_.texts);
    if (!tokens_.scores.empty()) {
      add("ggml.scores", tokens_.scores);
      add("ggml.add_space_prefix", begins_with_space());
    }
    add("ggml.token_type", tokens_.types);
  }

  /// Whether a text gets a space in front of it.
  bool begins_with_space() const {
    const auto ids = tokenizer_->encode("a", false);
    return !ids.empty() && tokenizer_->piece_of(ids.front()).starts_with(kSpace);
  }

  void add_special_ids() {
    const fs::path file = folder_ / "config.json";
    const json config = fs::exists(file) ? data::parse_json(read_file(file), file.string()) : json::object();
    const auto add_id = [&](const char* key, int32_t id, const char* in_config) {
      const json other = config.value(in_config, json());
      const json& first = other.is_array() && !other.empty() ? other.front() : other;
      if (id < 0 && first.is_number_unsigned()) id = first.get<int32_t>();
      if (id >= 0 && static_cast<size_t>(id) < tokens_.texts.size()) add(key, static_cast<uint32_t>(id));
    };
    const auto inner = tokenizer_->encode("a", false), outer = tokenizer_->encode("a", true);
    const bool adds = outer.size() > inner.size() && !inner.empty();
    const int32_t first = adds && outer.front() != inner.front() ? outer.front() : -1;
    const int32_t last = adds && outer.back() != inner.back() ? outer.back() : -1;
    const int32_t bos = tokenizer_->bos_id() >= 0 ? tokenizer_->bos_id() : first;
    add_id("ggml.bos_token_id", bos, "bos_token_id");
    add_id("ggml.eos_token_id", tokenizer_->eos_id(), "eos_token_id");
    add_id("ggml.unknown_token_id", tokenizer_->unk_id(), "unk_token_id");
    add_id("ggml.padding_token_id", tokenizer_->pad_id(), "pad_token_id");
    add("ggml.add_bos_token", first >= 0 && first == bos);
    add("ggml.add_eos_token", last >= 0 && last == tokenizer_->eos_id());
  }

  void add_chat_templates() {
    std::vector<std::string> names;
    for (const auto& [name, text] : tokenizer_->chat_templates()) {
      add(name == "default" ? "chat_template" : "chat_template." + name, text);
      if (name != "default") names.push_back(name);
    }
    if (!names.empty()) add("chat_templates", names);
  }

  void add(const std::string& key, Value value) { metadata_.emplace_back("tokenizer." + key, std::move(value)); }

  fs::path folder_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  Tokens tokens_;
  Metadata metadata_;
};

}  // namespace

Metadata vocabulary(const fs::path& folder, int64_t rows) {
  return Conversion(folder, rows).run();
}

}  // namespace trainer::gguf
