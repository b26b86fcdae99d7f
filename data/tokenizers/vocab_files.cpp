// Builds tokenizers from vocabulary files without tokenizer.json, like transformers' tokenizer_class.
#include <algorithm>

#include "data/json/parse_json.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/token_lists.h"
#include "data/tokenizers/tokenizer_files.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr int64_t kMaxVocabularyBytes = 256 << 20;
constexpr const char* kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

/// Calls `line(text, number)` for each line of a file.
template <class Line>
void for_each_line(const fs::path& path, Line&& line) {
  std::string text = read_file(path, kMaxVocabularyBytes);
  if (!is_utf8(text)) throw InputError("{}: not UTF-8 text.", path.string());
  std::string_view rest = text;
  for (int64_t number = 1; !rest.empty(); ++number) {
    size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view one = rest.substr(0, end);
    if (one.ends_with('\r')) one.remove_suffix(1);
    line(one, number);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

/// The merges of merges.txt: one "a b" per line, in order of rank, after a line with the version.
json read_merges(const fs::path& path) {
  if (!fs::exists(path)) {
    throw InputError("{}: no such file; vocab.json needs it.", path.string());
  }
  json merges = json::array();
  for_each_line(path, [&](std::string_view line, int64_t number) {
    if (line.empty() || (number == 1 && line.starts_with("#version"))) return;
    const auto parts = split_merge(line);
    if (!parts) {
      throw InputError("{}:{}: expected a merge, two pieces separated by a space, found \"{}\".", path.string(), number,
                       line);
    }
    merges.push_back({parts->first, parts->second});
  });
  return merges;
}

/// Adds an entry of `added_tokens` for each token.
void add_special(json& root, std::initializer_list<std::string> tokens) {
  for (const std::string& token : tokens) {
    json entry = {{"id", 0},         {"content", token},    {"single_word", false}, {"lstrip", token == "<mask>"},
                  {"rstrip", false}, {"normalized", false}, {"special", true}};
    if (!token.empty()) root["added_tokens"].push_back(entry);
  }
}

json id_pair(const json& vocab, const std::string& token) {
  auto found = vocab.find(token);
  return {token, found == vocab.end() ? json(nullptr) : *found};
}

/// Byte-level BPE: GPT-2 and similar tokenizers.
json byte_level_bpe(const fs::path& vocab_file, const TokenizerSettings& settings) {
  json byte_level = {{"type", "ByteLevel"}, {"add_prefix_space", settings.add_prefix_space}, {"trim_offsets", false}};
  json root = {{"model", {{"type", "BPE"}}},
               {"pre_tokenizer", byte_level},
               {"post_processor", byte_level},
               {"decoder", byte_level},
               {"added_tokens", json::array()}};
  json& model = root["model"];
  model["vocab"] = parse_json(read_file(vocab_file, kMaxVocabularyBytes), vocab_file.string());
  model["merges"] = read_merges(vocab_file.parent_path() / "merges.txt");
  if (settings.tokenizer_class.starts_with("Qwen")) {
    root["normalizer"] = {{"type", "NFC"}};
    byte_level["use_regex"] = false;
    json words = {{"type", "Split"}, {"pattern", {{"Regex", kQwenWords}}}, {"behavior", "Isolated"}, {"invert", false}};
    root["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {words, byte_level}}};
  } else if (settings.tokenizer_class.starts_with("Roberta")) {
    root["post_processor"] = {{"type", "RobertaProcessing"},
                              {"cls", id_pair(model["vocab"], "<s>")},
                              {"sep", id_pair(model["vocab"], "</s>")},
                              {"trim_offsets", true},
                              {"add_prefix_space", settings.add_prefix_space}};
    add_special(root, {"<s>", "<pad>", "</s>", "<unk>", "<mask>"});
    return root;
  }
  add_special(root, {"<|endoftext|>"});
  if (settings.add_bos.value_or(false)) {
    std::string bos = settings.bos_token.empty() ? "<|endoftext|>" : settings.bos_token;
    root["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {{{"SpecialToken", {{"id", bos}}}}, {{"Sequence", {{"id", "A"}}}}}},
                              {"special_tokens", {{bos, {{"ids", {id_pair(model["vocab"], bos)[1]}}}}}}};
  }
  return root;
}

/// BERT's WordPiece: vocab.txt has one piece per line; its id is the line number, from 0.
json word_piece(const fs::path& vocab_file, const TokenizerSettings& settings) {
  json vocab = json::object();
  for_each_line(vocab_file, [&](std::string_view line, int64_t number) { vocab[std::string(line)] = number - 1; });
  std::string unk = settings.unk_token.empty() ? "[UNK]" : settings.unk_token;
  json strip = settings.strip_accents ? json(*settings.strip_accents) : json(nullptr);
  json root = {{"model", {{"type", "WordPiece"}, {"vocab", vocab}, {"unk_token", unk}}},
               {"normalizer",
                {{"type", "BertNormalizer"},
                 {"clean_text", true},
                 {"handle_chinese_chars", settings.split_ideographs},
                 {"strip_accents", strip},
                 {"lowercase", settings.lowercase}}},
               {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
               {"post_processor",
                {{"type", "BertProcessing"}, {"cls", id_pair(vocab, "[CLS]")}, {"sep", id_pair(vocab, "[SEP]")}}},
               {"decoder", {{"type", "WordPiece"}, {"prefix", "##"}, {"cleanup", true}}},
               {"added_tokens", json::array()}};
  add_special(root, {"[PAD]", unk, "[CLS]", "[SEP]", "[MASK]"});
  return root;
}

/// Rejects other classes, which have the same files but use them differently.
void check_class(const fs::path& vocab_file, const std::string& name, std::initializer_list<const char*> known) {
  bool is_known = name.empty() ||
                  std::any_of(known.begin(), known.end(), [&](const char* front) { return name.starts_with(front); });
  if (is_known) return;
  throw InputError(
      "{}: vocabulary files of tokenizer_class {} (in tokenizer_config.json) are not supported.\n"
      "Put its tokenizer.json into the folder: AutoTokenizer.from_pretrained(folder).save_pretrained(folder) writes "
      "it.",
      vocab_file.string(), name);
}

}  // namespace

nlohmann::json read_vocab_files(const fs::path& vocab_file, TokenizerSettings& settings) {
  auto default_to = [](std::string& name, const char* value) {
    if (name.empty()) name = value;
  };
  if (vocab_file.extension() == ".txt") {
    check_class(vocab_file, settings.tokenizer_class, {"Bert", "DistilBert", "Electra"});
    default_to(settings.unk_token, "[UNK]");
    default_to(settings.pad_token, "[PAD]");
    return word_piece(vocab_file, settings);
  }
  check_class(vocab_file, settings.tokenizer_class, {"GPT2", "Qwen2", "Roberta"});
  json root = byte_level_bpe(vocab_file, settings);
  bool roberta = settings.tokenizer_class.starts_with("Roberta");
  default_to(settings.eos_token, roberta ? "</s>" : "<|endoftext|>");
  if (!settings.tokenizer_class.starts_with("Qwen")) default_to(settings.bos_token, roberta ? "<s>" : "<|endoftext|>");
  return root;
}

std::unique_ptr<Tokenizer> open_vocab_files(const fs::path& vocab_file) {
  TokenizerSettings settings = read_tokenizer_settings(vocab_file);
  const json root = read_vocab_files(vocab_file, settings);
  return make_json_tokenizer(root, vocab_file, settings);
}

}  // namespace trainer::data
