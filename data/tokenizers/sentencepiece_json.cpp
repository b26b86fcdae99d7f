#include "data/tokenizers/sentencepiece_json.h"

#include <algorithm>
#include <cfloat>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "data/tokenizers/normalizers/base64.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

using ordered_json = nlohmann::ordered_json;
using SentencePiece = SentencePieceModel::Piece;

constexpr const char* kMark = "\u2581";  // SentencePiece's visible space

/// The text of an id: the piece's, or that of the added token that replaces it.
std::string text_at(size_t id, const SentencePieceModel& model, const SentencePieceSetup& setup) {
  auto added = setup.special.find(static_cast<int32_t>(id));
  return added != setup.special.end() ? added->second.content : std::string(model.pieces[id].text);
}

/// The pieces that can be intermediate results of merges, with their ids.
std::unordered_map<std::string_view, size_t> normal_pieces(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, size_t> ids;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kNormal) ids.emplace(model.pieces[id].text, id);
  }
  return ids;
}

/// SentencePiece merges the neighbors whose piece has the best score, the leftmost of equal ones; in tokenizer.json
/// each pair has a separate rank. Of equal scores, pairs with the longer left part come first: they grow a run from its
/// left end.
ordered_json merges_of(const SentencePieceModel& model) {
  const auto ids = normal_pieces(model);
  struct Merge {
    float score;
    std::string_view left, right;
  };
  std::vector<Merge> merges;
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type != PieceType::kNormal || piece.text.find(' ') != std::string_view::npos) continue;
    for (size_t at = 1; at < piece.text.size(); ++at) {
      if (is_inside_character(piece.text[at])) continue;
      std::string_view left = piece.text.substr(0, at), right = piece.text.substr(at);
      if (ids.contains(left) && ids.contains(right)) merges.push_back({piece.score, left, right});
    }
  }
  std::stable_sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(b.score, b.left.size(), b.right.size()) < std::tuple(a.score, a.left.size(), a.right.size());
  });
  ordered_json list = ordered_json::array();
  for (const Merge& merge : merges) list.push_back(std::string(merge.left) + " " + std::string(merge.right));
  return list;
}

/// The user-defined symbols, longest first, without those that are recognized before the model's rules.
std::vector<std::string_view> symbols_of(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  std::vector<std::string_view> symbols;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    const bool is_special = setup.special.contains(static_cast<int32_t>(id));
    if (piece.type == PieceType::kUserDefined && !is_special) symbols.push_back(piece.text);
  }
  std::stable_sort(symbols.begin(), symbols.end(), [](auto a, auto b) { return a.size() > b.size(); });
  return symbols;
}

std::string unknown_text(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == PieceType::kUnknown) return text_at(id, model, setup);
  }
  return "";
}

ordered_json bpe(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  ordered_json::object_t vocab;  // emplace_back, because [] searches linearly
  for (size_t id = 0; id < model.pieces.size(); ++id) vocab.emplace_back(text_at(id, model, setup), id);
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", unknown_text(model, setup)},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.byte_fallback},
          {"ignore_merges", !symbols_of(model, setup).empty()},  // a symbol is a separate word: see apart()
          {"vocab", vocab},
          {"merges", merges_of(model)}};
}

/// The score of a symbol: higher than any other, so that SentencePiece prefers it.
double symbol_score(const SentencePiece& symbol, const SentencePieceModel& model) {
  float best = FLT_MIN;  // as in SentencePiece
  for (const SentencePiece& piece : model.pieces) {
    if (piece.type == PieceType::kNormal) best = std::max(best, piece.score);
  }
  return static_cast<float>(static_cast<float>(symbol.text.size()) * best - 0.1);
}

ordered_json unigram(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  ordered_json vocab = ordered_json::array();
  size_t unknown = 0;
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePiece& piece = model.pieces[id];
    if (piece.type == PieceType::kUnknown) unknown = id;
    double score = piece.type == PieceType::kUserDefined ? symbol_score(piece, model) : double{piece.score};
    vocab.push_back({text_at(id, model, setup), score});
  }
  return {{"type", "Unigram"}, {"unk_id", unknown}, {"vocab", vocab}, {"byte_fallback", model.byte_fallback}};
}

ordered_json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

ordered_json sequence(const char* list, ordered_json stages) {
  if (stages.empty()) return nullptr;
  return {{"type", "Sequence"}, {list, std::move(stages)}};
}

/// What SentencePiece's normalizer does to each part between special tokens.
ordered_json normalizer(const SentencePieceModel& model, bool legacy) {
  ordered_json stages = ordered_json::array();
  if (!model.charsmap.empty()) {
    stages.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", encode_base64(model.charsmap)}});
  }
  if (model.remove_extra_whitespaces) {
    stages.push_back(replace("Regex", " {2,}", " "));
    stages.push_back(replace("Regex", "[ \u2581]+\\z", ""));
    if (legacy) stages.push_back(replace("Regex", "\\A +", ""));
  }
  if (model.add_dummy_prefix && legacy) stages.push_back({{"type", "Prepend"}, {"prepend", kMark}});
  if (legacy || !model.add_dummy_prefix || !model.remove_extra_whitespaces) {
    stages.push_back(replace("String", " ", kMark));
  }
  return sequence("normalizers", stages);
}

ordered_json metaspace(const char* replacement, const char* scheme) {
  return {{"type", "Metaspace"}, {"replacement", replacement}, {"prepend_scheme", scheme}, {"split", false}};
}

/// Isolates symbols: they stay whole, and nothing merges with them.
ordered_json apart(const std::vector<std::string_view>& symbols) {
  std::string pattern;
  for (std::string_view symbol : symbols) {
    if (!pattern.empty()) pattern += '|';
    for (char c : symbol) {
      if (std::string_view("\\^$.|?*+()[]{}/-#&~").find(c) != std::string_view::npos) pattern += '\\';
      pattern += c;
    }
  }
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

/// Without `legacy`, only the first part gets a leading space, even if it begins with a space. Metaspace adds a space
/// only if there is none, so the first Metaspace works on spaces after those of the text have become marks.
ordered_json pre_tokenizer(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  ordered_json stages = ordered_json::array();
  if (model.add_dummy_prefix && !setup.legacy) {
    stages.push_back(metaspace(" ", "first"));
    stages.push_back(metaspace(kMark, "never"));
  }
  const auto symbols = symbols_of(model, setup);
  if (model.model_type == SentencePieceModel::kBpe && !symbols.empty()) stages.push_back(apart(symbols));
  return sequence("pretokenizers", stages);
}

ordered_json decoder(const SentencePieceModel& model) {
  ordered_json stages = ordered_json::array({replace("String", kMark, " ")});
  if (model.byte_fallback) stages.push_back({{"type", "ByteFallback"}});
  stages.push_back({{"type", "Fuse"}});
  if (model.add_dummy_prefix) stages.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return sequence("decoders", stages);
}

ordered_json post_processor(const SentencePieceSetup& setup) {
  if (setup.bos.empty() && setup.eos.empty()) return nullptr;
  ordered_json tokens = ordered_json::object(), single = ordered_json::array(), pair = ordered_json::array();
  const auto add_token = [&](ordered_json& list, const std::string& token, int32_t id) {
    if (token.empty()) return;
    list.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    tokens[token] = {{"id", token}, {"ids", ordered_json::array({id})}, {"tokens", ordered_json::array({token})}};
  };
  const auto add_text = [&](ordered_json& list, const char* name) {
    add_token(list, setup.bos, setup.bos_id);
    list.push_back({{"Sequence", {{"id", name}, {"type_id", 0}}}});
    add_token(list, setup.eos, setup.eos_id);
  };
  add_text(single, "A");
  add_text(pair, "A");
  add_text(pair, "B");
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
}

ordered_json added_tokens(const SentencePieceSetup& setup) {
  ordered_json list = ordered_json::array();
  for (const auto& [id, token] : setup.special) {  // in order of id, because new tokens get their ids in this order
    list.push_back({{"id", id},
                    {"content", token.content},
                    {"single_word", false},
                    {"lstrip", token.lstrip},
                    {"rstrip", token.rstrip},
                    {"normalized", false},
                    {"special", token.special}});
  }
  return list;
}

}  // namespace

ordered_json sentencepiece_json(const SentencePieceModel& model, const SentencePieceSetup& setup) {
  const bool is_bpe = model.model_type == SentencePieceModel::kBpe;
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens(setup)},
          {"normalizer", normalizer(model, setup.legacy)},
          {"pre_tokenizer", pre_tokenizer(model, setup)},
          {"post_processor", post_processor(setup)},
          {"decoder", decoder(model)},
          {"model", is_bpe ? bpe(model, setup) : unigram(model, setup)}};
}

}  // namespace trainer::data
