#include "data/megatron/sequence_index.h"

#include <bit>
#include <cstring>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

static_assert(std::endian::native == std::endian::little, "the files are little-endian");

// magic 9, version u64, type u8, sequences u64, document entries u64; then lengths i32, offsets i64, documents i64
constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr size_t kVersionAt = 9, kTypeAt = 17, kSequencesAt = 18, kDocumentsAt = 26, kHeaderBytes = 34;
constexpr uint64_t kBytesOfSequence = 4 + 8, kBytesOfDocument = 8;

/// The value at any offset, aligned or not.
template <class T>
T value_at(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::string bin_of(const std::string& idx) {
  return (idx.ends_with(".idx") ? idx.substr(0, idx.size() - 4) : idx) + ".bin";
}

}  // namespace

SequenceIndex::SequenceIndex(std::string_view bytes, std::string path, int64_t bin_bytes)
    : bytes_(bytes), path_(std::move(path)) {
  read_header();
  read_counts();
  check_sequences(bin_bytes);
  check_documents();
}

void SequenceIndex::read_header() {
  if (!bytes_.starts_with(kMagic)) {
    throw InputError("{}: not a Megatron .idx file: it doesn't begin with MMIDIDX.", path_);
  }
  if (bytes_.size() < kHeaderBytes) {
    throw InputError("{}: truncated: {} bytes, but the header alone has {}.", path_, bytes_.size(), kHeaderBytes);
  }
  if (auto version = value_at<uint64_t>(bytes_, kVersionAt); version != 1) {
    throw InputError("{}: version {} of the format is not supported; version 1 is.", path_, version);
  }
  auto code = value_at<uint8_t>(bytes_, kTypeAt);
  type_ = static_cast<TokenType>(code);
  if (token_bytes(type_) == 0) throw InputError("{}: unknown token type {}; types 1 to 8 are known.", path_, code);
}

void SequenceIndex::read_counts() {
  auto sequences = value_at<uint64_t>(bytes_, kSequencesAt), documents = value_at<uint64_t>(bytes_, kDocumentsAt);
  const uint64_t size = bytes_.size();
  // The counts are checked against the size first, so that the products below can't overflow.
  bool fits = sequences <= size / kBytesOfSequence && documents <= size / kBytesOfDocument;
  uint64_t needed = fits ? kHeaderBytes + sequences * kBytesOfSequence + documents * kBytesOfDocument : 0;
  if (!fits || needed > size) {
    throw InputError("{}: truncated: {} bytes, too few for the {} sequences and {} document entries in its header.",
                     path_, size, sequences, documents);
  }
  // Multimodal corpora have one extra byte per sequence, which text doesn't need.
  if (size != needed && size != needed + sequences) {
    throw InputError("{}: {} bytes, but its {} sequences and {} document entries take {}.", path_, size, sequences,
                     documents, needed);
  }
  if (documents == 0) throw InputError("{}: no document entries; even an empty corpus has one.", path_);
  sequences_ = static_cast<int64_t>(sequences);
  document_entries_ = static_cast<int64_t>(documents);
}

void SequenceIndex::check_sequences(int64_t bin_bytes) const {
  int64_t end = 0;
  for (int64_t i = 0; i < sequences_; ++i) {
    if (length(i) < 0) throw InputError("{}: sequence {} has a length of {}.", path_, i, length(i));
    if (offset(i) != end) {
      throw InputError("{}: sequence {} begins at byte {} of the .bin file, but the one before it ends at {}.", path_,
                       i, offset(i), end);
    }
    // Lengths are below 2^31 and there are fewer than 2^60 of them, but their sum may overflow.
    if (__builtin_add_overflow(end, length(i) * token_bytes(type_), &end)) {
      throw InputError("{}: the total size of its sequences overflows 64 bits.", path_);
    }
  }
  if (end == bin_bytes) return;
  throw InputError("{}: {}: {} bytes, but {} expects {}.\n{}", bin_of(path_),
                   bin_bytes < end ? "truncated" : "it belongs to another .idx file", bin_bytes, path_, end,
                   bin_bytes < end ? "Copy the file again." : "Create both files again, or copy both.");
}

void SequenceIndex::check_documents() const {
  for (int64_t k = 1; k < document_entries_; ++k) {
    if (document_start(k) >= document_start(k - 1)) continue;
    throw InputError("{}: document {} begins at sequence {}, before document {} at {}.", path_, k, document_start(k),
                     k - 1, document_start(k - 1));
  }
  if (document_start(0) != 0 || document_start(documents()) != sequences_) {
    throw InputError("{}: its documents cover sequences {} to {}, but there are {}.", path_, document_start(0),
                     document_start(documents()), sequences_);
  }
}

int64_t SequenceIndex::length(int64_t sequence) const {
  return value_at<int32_t>(bytes_, kHeaderBytes + static_cast<size_t>(sequence) * 4);
}

int64_t SequenceIndex::offset(int64_t sequence) const {
  return value_at<int64_t>(bytes_,
                           kHeaderBytes + static_cast<size_t>(sequences_) * 4 + static_cast<size_t>(sequence) * 8);
}

int64_t SequenceIndex::document_start(int64_t document) const {
  return value_at<int64_t>(bytes_, kHeaderBytes + static_cast<size_t>(sequences_) * kBytesOfSequence +
                                       static_cast<size_t>(document) * kBytesOfDocument);
}

}  // namespace trainer::data
