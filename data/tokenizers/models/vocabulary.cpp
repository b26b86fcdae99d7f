#include "data/tokenizers/models/vocabulary.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "data/tokenizers/models/hash.h"
#include "engine/base/errors.h"

namespace trainer::data {

Vocabulary::Vocabulary(const VocabList& list) {
  constexpr int64_t kLimit = std::numeric_limits<int32_t>::max();
  if (list.size() >= static_cast<size_t>(kLimit)) throw InputError("The vocabulary has {} pieces.", list.size());
  size_t bytes = 0;
  for (const auto& [piece, id] : list) {
    if (id < 0 || id > kLimit) {
      throw InputError("The vocabulary gives '{}' the id {}; ids must be between 0 and {}.", piece, id, kLimit);
    }
    bytes += piece.size();
    longest_ = std::max(longest_, piece.size());
  }
  text_.reserve(bytes);  // views stay valid because it never grows
  by_id_.reserve(list.size());
  for (const auto& [piece, id] : list) {
    by_id_.push_back({static_cast<int32_t>(id), std::string_view(text_.data() + text_.size(), piece.size())});
    text_ += piece;
  }
  std::sort(by_id_.begin(), by_id_.end(), [](const Entry& a, const Entry& b) { return a.id < b.id; });
  for (size_t i = 1; i < by_id_.size(); ++i) {
    if (by_id_[i].id != by_id_[i - 1].id) continue;
    throw InputError("The vocabulary gives the id {} to both '{}' and '{}'.", by_id_[i].id, by_id_[i - 1].piece,
                     by_id_[i].piece);
  }
  fill_table();
}

void Vocabulary::fill_table() {
  table_.assign(std::bit_ceil(by_id_.size() * 2 + 2), 0);
  const size_t mask = table_.size() - 1;
  for (size_t place = 0; place < by_id_.size(); ++place) {
    std::string_view piece = by_id_[place].piece;
    size_t slot = hash_bytes(piece) & mask;
    for (; table_[slot] != 0; slot = (slot + 1) & mask) {
      const Entry& other = by_id_[table_[slot] - 1];
      if (other.piece != piece) continue;
      throw InputError("The vocabulary has '{}' twice, with the ids {} and {}.", piece, other.id, by_id_[place].id);
    }
    table_[slot] = static_cast<uint32_t>(place + 1);
  }
}

int32_t Vocabulary::find_id(std::string_view piece) const {
  const size_t mask = table_.size() - 1;
  for (size_t slot = hash_bytes(piece) & mask; table_[slot] != 0; slot = (slot + 1) & mask) {
    const Entry& entry = by_id_[table_[slot] - 1];
    if (entry.piece == piece) return entry.id;
  }
  return -1;
}

std::string_view Vocabulary::piece_of(int32_t id) const {
  // Most vocabularies have no gaps: the entry is at the index of its id.
  if (id >= 0 && static_cast<size_t>(id) < by_id_.size() && by_id_[id].id == id) return by_id_[id].piece;
  auto found = std::lower_bound(by_id_.begin(), by_id_.end(), id, [](const Entry& e, int32_t i) { return e.id < i; });
  return found != by_id_.end() && found->id == id ? found->piece : std::string_view();
}

}  // namespace trainer::data
