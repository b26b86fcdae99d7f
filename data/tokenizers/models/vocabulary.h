// A bidirectional map between pieces and ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/models/token_model.h"

namespace trainer::data {

/// Finds the id of a piece and the piece of an id. Ids don't have to be contiguous: memory grows with the number of
/// pieces, not with the largest id.
class Vocabulary {
 public:
  /// @throws InputError for an id outside [0, 2^31), an id of two pieces or a piece with two ids.
  explicit Vocabulary(const VocabList& list);

  std::optional<int32_t> find(std::string_view piece) const {
    int32_t id = find_id(piece);
    return id < 0 ? std::nullopt : std::optional(id);
  }
  /// As find(), with -1 for none.
  int32_t find_id(std::string_view piece) const;
  /// The piece of an id; a view without data when there is none.
  std::string_view piece_of(int32_t id) const;

  struct Entry {
    int32_t id;
    std::string_view piece;
  };
  /// Sorted by id.
  const std::vector<Entry>& entries() const { return by_id_; }
  size_t longest_piece() const { return longest_; }  ///< bytes

  Vocabulary(const Vocabulary&) = delete;  // the entries are views into text_
  Vocabulary& operator=(const Vocabulary&) = delete;

 private:
  void fill_table();

  std::string text_;
  std::vector<Entry> by_id_;
  std::vector<uint32_t> table_;  // open addressing: 1 + index in by_id_, 0 is empty; a power of two
  size_t longest_ = 0;
};

}  // namespace trainer::data
