// Unigram: splits a text into the pieces with the largest sum of scores.
#include <algorithm>
#include <cmath>
#include <limits>

#include "data/tokenizers/models/byte_pieces.h"
#include "data/tokenizers/models/byte_trie.h"
#include "data/tokenizers/models/chars.h"
#include "data/tokenizers/models/token_model.h"
#include "data/tokenizers/models/word_cache.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

constexpr double kUnkPenalty = 10;

/// The best path to a position of the text: its last piece and the sum of scores.
struct Step {
  double score = 0;
  uint32_t begin = UINT32_MAX;  // unreachable
  int32_t id = -1;
};

void check(const UnigramOptions& options) {
  const size_t size = options.pieces.size();
  if (size >= static_cast<size_t>(std::numeric_limits<int32_t>::max())) {
    throw InputError("The vocabulary has {} pieces.", size);
  }
  if (options.unk_id && (*options.unk_id < 0 || *options.unk_id >= static_cast<int64_t>(size))) {
    throw InputError("unk_id is {}, but the vocabulary has {} pieces.", *options.unk_id, size);
  }
  for (const auto& [piece, score] : options.pieces) {
    if (!std::isfinite(score))
      throw InputError("The score of the piece '{}' is {}; scores must be finite.", piece, score);
  }
}

std::vector<std::pair<std::string_view, int32_t>> numbered(const UnigramOptions& options) {
  std::vector<std::pair<std::string_view, int32_t>> pieces;
  pieces.reserve(options.pieces.size());
  for (const auto& piece : options.pieces) pieces.emplace_back(piece.first, static_cast<int32_t>(pieces.size()));
  return pieces;
}

class Unigram final : public TokenModel {
 public:
  explicit Unigram(UnigramOptions options)
      : options_(std::move(options)), trie_(numbered(options_)), unk_id_(options_.unk_id.value_or(-1)) {
    double lowest = std::numeric_limits<double>::infinity();
    for (const auto& piece : options_.pieces) lowest = std::min(lowest, piece.second);
    unk_score_ = lowest - kUnkPenalty;
    if (options_.byte_fallback) {
      byte_ids_ = find_byte_pieces([&](std::string_view piece) { return find(piece); });
    } else {
      byte_ids_.fill(-1);
    }
  }

  void encode(std::string_view text, std::vector<Token>& out) const override {
    if (text.empty()) return;
    WordCache& cache = WordCache::of_thread();
    if (cache.find(owner_, text, 0, out)) return;
    const size_t before = out.size();
    thread_local std::vector<Step> scratch;
    find_best_path(text, scratch);
    follow_back(text, scratch, out);
    if (scratch.capacity() > kKeptScratch) scratch = {};
    cache.keep(owner_, text, 0, out, before);
  }
  std::optional<int32_t> id_of(std::string_view piece) const override {
    int32_t id = find(piece);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  std::string_view piece_of(int32_t id) const override {
    return id >= 0 && id < size() ? std::string_view(options_.pieces[id].first) : std::string_view();
  }
  int64_t size() const override { return static_cast<int64_t>(options_.pieces.size()); }

 private:
  static constexpr size_t kKeptScratch = 1 << 16;

  int32_t find(std::string_view piece) const {
    int32_t id = -1;
    trie_.for_each_prefix(piece, [&](size_t length, int32_t value) {
      if (length == piece.size()) id = value;
    });
    return id;
  }

  /// Sets best[i] to the best path to byte i of the text. Of equal sums the first one wins, as in the reference.
  void find_best_path(std::string_view text, std::vector<Step>& best) const {
    check_length(text);
    best.assign(text.size() + 1, Step());
    for (size_t begin = 0; begin < text.size();) {
      const double here = best[begin].score;
      auto offer = [&](size_t length, double score, int32_t id) {
        Step& step = best[begin + length];
        if (step.begin != UINT32_MAX && !(here + score > step.score)) return false;
        step = {here + score, static_cast<uint32_t>(begin), id};
        return true;
      };
      const uint32_t one_char = char_length(text, begin);
      bool known = false;
      trie_.for_each_prefix(text.substr(begin), [&](size_t length, int32_t id) {
        offer(length, options_.pieces[id].second, id);
        known |= length == one_char;
      });
      if (!known && offer(one_char, unk_score_, unk_id_) && unk_id_ < 0) {
        throw InputError("'{}' is not in the vocabulary, and unk_id is not set.", text.substr(begin, one_char));
      }
      begin += one_char;
    }
  }

  /// Adjacent unknown characters form one token.
  void follow_back(std::string_view text, const std::vector<Step>& best, std::vector<Token>& out) const {
    const size_t before = out.size();
    for (auto end = static_cast<uint32_t>(text.size()); end > 0;) {
      uint32_t begin = best[end].begin;
      const int32_t id = best[end].id;
      if (id == unk_id_) {
        while (begin > 0 && best[begin].id == unk_id_) begin = best[begin].begin;
        add_unknown(text, begin, end, out);
      } else {
        out.push_back({id, begin, end});
      }
      end = begin;
    }
    std::reverse(out.begin() + static_cast<ptrdiff_t>(before), out.end());
  }

  /// Last token first, as in follow_back. A run of unknown characters that is a piece becomes that piece.
  void add_unknown(std::string_view text, uint32_t begin, uint32_t end, std::vector<Token>& out) const {
    std::string_view run = text.substr(begin, end - begin);
    const int32_t whole = find(run);
    auto has_piece = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)] >= 0; };
    if (whole >= 0 || !options_.byte_fallback || !std::all_of(run.begin(), run.end(), has_piece)) {
      out.push_back({whole >= 0 ? whole : unk_id_, begin, end});
      return;
    }
    for (uint32_t i = end; i > begin; --i) {
      out.push_back({byte_ids_[static_cast<unsigned char>(text[i - 1])], begin, end});
    }
  }

  UnigramOptions options_;
  ByteTrie trie_;
  int32_t unk_id_;  // -1: none
  double unk_score_;
  std::array<int32_t, 256> byte_ids_;
  uint64_t owner_ = WordCache::new_owner();
};

}  // namespace

std::unique_ptr<TokenModel> make_unigram(UnigramOptions options) {
  check(options);
  return std::make_unique<Unigram>(std::move(options));
}

}  // namespace trainer::data
