// Detects duplicate records without storing them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "data/readers/record.h"

namespace trainer::data {

/// A set of records, each stored as a 128-bit hash of its columns (19 to 24 bytes of memory). Among a billion records,
/// the probability that two different ones collide is below 10⁻²⁰.
class RecordSet {
 public:
  /// Adds the record; false when one with the same columns (in any order) is in the set.
  bool add(const Record& record);

  int64_t size() const;
  /// Memory used by the set, in bytes.
  int64_t memory() const;

 private:
  struct Hash {
    uint64_t low = 0, high = 0;  // both 0: empty
    bool operator==(const Hash&) const = default;
  };

  /// A separate table for hashes with the same prefix, so that growing copies only a small part of the set.
  struct Part {
    std::vector<Hash> slots;
    size_t used = 0;
    bool add(Hash hash);
    void grow();
    Hash& slot_for(Hash hash);
  };

  static Hash hash_of(const Record& record);

  std::array<Part, 256> parts_;
};

}  // namespace trainer::data
