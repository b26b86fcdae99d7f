#include "data/readers/duplicates.h"

#include <xxhash.h>

namespace trainer::data {

bool RecordSet::add(const Record& record) {
  Hash hash = hash_of(record);
  return parts_[hash.high >> 56].add(hash);
}

int64_t RecordSet::size() const {
  size_t sum = 0;
  for (const Part& part : parts_) sum += part.used;
  return static_cast<int64_t>(sum);
}

int64_t RecordSet::memory() const {
  size_t sum = 0;
  for (const Part& part : parts_) sum += part.slots.capacity() * sizeof(Hash);
  return static_cast<int64_t>(sum);
}

/// The sum of the fields' hashes, so that their order doesn't matter.
RecordSet::Hash RecordSet::hash_of(const Record& record) {
  Hash sum;
  for (size_t i = 0; i < record.fields.size(); ++i) {
    const auto& [name, text] = record.fields[i];
    bool json = i < record.json.size() && record.json[i];
    XXH64_hash_t of_name = XXH3_64bits_withSeed(name.data(), name.size(), json);
    XXH128_hash_t hash = XXH3_128bits_withSeed(text.data(), text.size(), of_name);
    sum.low += hash.low64;
    sum.high += hash.high64;
  }
  if (sum == Hash{}) sum.low = 1;
  return sum;
}

bool RecordSet::Part::add(Hash hash) {
  if (used >= slots.size() * 5 / 6) grow();
  Hash& slot = slot_for(hash);
  if (slot == hash) return false;
  slot = hash;
  ++used;
  return true;
}

void RecordSet::Part::grow() {
  std::vector<Hash> old(slots.size() + slots.size() / 4 + 16);
  old.swap(slots);
  for (Hash hash : old) {
    if (hash != Hash{}) slot_for(hash) = hash;
  }
}

/// The slot that holds the hash, or the free slot for it.
RecordSet::Hash& RecordSet::Part::slot_for(Hash hash) {
  size_t at = hash.low % slots.size();
  while (slots[at] != Hash{} && slots[at] != hash) at = at + 1 == slots.size() ? 0 : at + 1;
  return slots[at];
}

}  // namespace trainer::data
