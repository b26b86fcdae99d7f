#include "data/tokenizers/read_token_model.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include <fmt/format.h>

namespace trainer::data {
namespace {

using nlohmann::json;

/// The pieces of `vocab`, an object of ids by piece.
VocabList read_vocab(const JsonView& view, int64_t& largest_id) {
  VocabList vocab;
  if (!view.is_object()) {
    view.problem("expected an object that maps pieces to ids");
    return vocab;
  }
  if (view.value().empty()) view.problem("has no pieces");
  vocab.reserve(view.value().size());
  for (const auto& [piece, id] : view.value().items()) {
    bool fits = id.is_number_integer() && id.get<int64_t>() >= 0 && id.get<int64_t>() < kMaxTokenId;
    if (fits) {
      vocab.emplace_back(piece, id.get<int64_t>());
      largest_id = std::max(largest_id, vocab.back().second);
    } else {
      view.problem(fmt::format("\"{}\" has the id {}; expected an id from 0 to {}", piece, id.dump(), kMaxTokenId - 1));
    }
  }
  return vocab;
}

/// A merge: ["a", "b"], or "a b" in older files.
std::pair<std::string, std::string> read_merge(const json& merge, bool& good) {
  if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
    return {merge[0].get<std::string>(), merge[1].get<std::string>()};
  }
  auto parts = merge.is_string() ? split_merge(merge.get_ref<const std::string&>()) : std::nullopt;
  good = good && parts.has_value();
  return parts.value_or(std::pair<std::string, std::string>());
}

std::vector<std::pair<std::string, std::string>> read_merges(const JsonView& view) {
  std::vector<std::pair<std::string, std::string>> merges;
  if (!view.is_list()) {
    view.problem("expected a list of merges");
    return merges;
  }
  merges.reserve(view.value().size());
  for (size_t i = 0; i < view.value().size(); ++i) {
    bool good = true;
    merges.push_back(read_merge(view.value()[i], good));
    if (!good) view.problem(fmt::format("merge {} is not a pair of pieces", i));
  }
  return merges;
}

ReadTokenModel bpe_with(TokenLists lists, const JsonView& view) {
  ReadTokenModel result;
  for (const auto& [piece, id] : lists.vocab) result.largest_id = std::max(result.largest_id, id);
  BpeOptions options{.vocab = std::move(lists.vocab), .merges = std::move(lists.merges)};
  result.unk_token = view.at("unk_token").text("");
  if (!result.unk_token.empty()) options.unk_token = result.unk_token;
  options.continuing_subword_prefix = view.at("continuing_subword_prefix").text("");
  options.end_of_word_suffix = view.at("end_of_word_suffix").text("");
  options.fuse_unk = view.at("fuse_unk").flag(false);
  options.byte_fallback = view.at("byte_fallback").flag(false);
  options.ignore_merges = view.at("ignore_merges").flag(false);
  JsonView dropout = view.at("dropout");
  if (!dropout.is_null() && dropout.number() != 0) {
    dropout.problem("BPE dropout gives random ids, which is not supported; set it to null");
  }
  if (view.is_clean()) result.model = make_bpe(std::move(options));
  return result;
}

ReadTokenModel read_bpe(const JsonView& view) {
  int64_t largest_id = -1;
  VocabList vocab = read_vocab(view.at("vocab"), largest_id);
  return bpe_with({std::move(vocab), read_merges(view.at("merges"))}, view);
}

/// A score as `tokenizers` parses it: all digits as one number, divided by a power of ten, which rounds twice. This
/// decides between paths of almost equal scores (a long run of one letter).
double as_library_reads(double score) {
  char text[32];
  const char* end = std::to_chars(text, text + sizeof text, std::abs(score), std::chars_format::scientific).ptr;
  uint64_t digits = 0;
  int exponent = 0;
  for (const char* at = text; at < end; ++at) {
    if (*at == 'e') {
      int written = 0;
      std::from_chars(at[1] == '+' ? at + 2 : at + 1, end, written);
      exponent += written;
      break;
    }
    if (*at == '.') {
      exponent = static_cast<int>(-(std::find(at, end, 'e') - at - 1));
    } else {
      digits = 10 * digits + static_cast<uint64_t>(*at - '0');
    }
  }
  if (exponent < -300 || exponent > 0) return score;
  return std::copysign(static_cast<double>(digits) / std::pow(10.0, -exponent), score);
}

ReadTokenModel read_unigram(const JsonView& view) {
  ReadTokenModel result;
  UnigramOptions options;
  JsonView vocab = view.at("vocab");
  if (!vocab.is_list()) {
    vocab.problem("expected a list of pieces with scores");
    return result;
  }
  if (vocab.value().empty()) vocab.problem("has no pieces");
  options.pieces.reserve(vocab.value().size());
  for (const json& entry : vocab.value()) {
    if (entry.is_array() && entry.size() == 2 && entry[0].is_string() && entry[1].is_number()) {
      options.pieces.emplace_back(entry[0].get<std::string>(), as_library_reads(entry[1].get<double>()));
    } else {
      vocab.problem(fmt::format("entry {} is not a piece and its score", options.pieces.size()));
      options.pieces.emplace_back();
    }
  }
  auto pieces = static_cast<int64_t>(options.pieces.size());
  if (pieces > kMaxTokenId) vocab.problem(fmt::format("{} pieces; at most {} are supported", pieces, kMaxTokenId));
  if (JsonView unk = view.at("unk_id"); !unk.is_null()) {
    options.unk_id = unk.integer(0, std::max<int64_t>(pieces - 1, 0));
    if (pieces > 0) result.unk_token = options.pieces[static_cast<size_t>(*options.unk_id)].first;
  }
  options.byte_fallback = view.at("byte_fallback").flag(false);
  result.largest_id = pieces - 1;
  if (view.is_clean()) result.model = make_unigram(std::move(options));
  return result;
}

ReadTokenModel read_word_piece(const JsonView& view) {
  ReadTokenModel result;
  WordPieceOptions options;
  options.vocab = read_vocab(view.at("vocab"), result.largest_id);
  options.unk_token = result.unk_token = view.at("unk_token").text("[UNK]");
  options.continuing_subword_prefix = view.at("continuing_subword_prefix").text("##");
  options.max_input_chars_per_word = view.at("max_input_chars_per_word").integer(0, INT32_MAX, 100);
  if (view.is_clean()) result.model = make_word_piece(std::move(options));
  return result;
}

ReadTokenModel read_word_level(const JsonView& view) {
  ReadTokenModel result;
  WordLevelOptions options;
  options.vocab = read_vocab(view.at("vocab"), result.largest_id);
  options.unk_token = result.unk_token = view.at("unk_token").text("<unk>");
  if (view.is_clean()) result.model = make_word_level(std::move(options));
  return result;
}

using TokenModelReader = ReadTokenModel (*)(const JsonView&);

/// Guesses the type, which older files don't contain.
TokenModelReader guess(const JsonView& view) {
  if (!view.at("merges").is_null()) return read_bpe;
  if (view.at("vocab").is_list()) return read_unigram;
  return view.at("continuing_subword_prefix").is_null() ? read_word_level : read_word_piece;
}

}  // namespace

ReadTokenModel read_token_model(const JsonView& view, TokenLists* lists) {
  if (!view.is_object()) {
    view.problem("expected an object");
    return {};
  }
  if (lists != nullptr) return bpe_with(std::move(*lists), view);
  if (view.at("type").is_null()) return guess(view)(view);
  auto read = view.at("type").choice<TokenModelReader>(
      {{"BPE", read_bpe}, {"Unigram", read_unigram}, {"WordPiece", read_word_piece}, {"WordLevel", read_word_level}});
  return read ? (*read)(view) : ReadTokenModel{};
}

}  // namespace trainer::data
