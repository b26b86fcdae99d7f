// Two bytes are the size of a .bin file, the others its .idx: they give sequences inside the file, documents made of
// them and samples taken from them, or an InputError.
#include <cstring>

#include "data/megatron/gpt_index.h"
#include "engine/base/errors.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::data {
namespace {

void check_index(const SequenceIndex& index, int64_t bin_bytes) {
  int64_t end = 0;
  for (int64_t i = 0; i < index.sequences(); ++i) {
    check(index.length(i) >= 0 && index.offset(i) == end, "sequences are back to back");
    end += index.length(i) * token_bytes(index.type());
  }
  check(end == bin_bytes, "sequences fill the file");
  int64_t begin = 0;
  for (int64_t k = 0; k <= index.documents(); ++k) {
    check(index.document_start(k) >= begin && index.document_start(k) <= index.sequences(), "documents are in order");
    begin = index.document_start(k);
  }
}

void check_samples(const SequenceIndex& index, int64_t length) {
  for (bool drop_last : {true, false}) {
    const GptIndex samples(index, {{0, index.sequences()}, length, std::nullopt, 7, drop_last});
    for (int64_t k = 0; k < samples.size(); ++k) {
      int64_t tokens = 0;
      for (const SamplePiece& piece : samples.pieces(index, k)) {
        check(piece.offset >= 0 && piece.length > 0, "a piece has tokens");
        check(piece.offset + piece.length <= index.length(piece.sequence), "a piece is inside its sequence");
        tokens += piece.length;
      }
      check(drop_last ? tokens == length + 1 : tokens <= length + 1 && tokens > 0,
            "a sample has the right number of tokens");
    }
  }
}

void fuzz(std::string_view bytes, uint16_t bin_bytes) try {
  const SequenceIndex index(bytes, "f.idx", bin_bytes);
  check_index(index, bin_bytes);
  check_samples(index, 1 + bin_bytes % 61);
} catch (const InputError&) {
}

}  // namespace
}  // namespace trainer::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  uint16_t bin_bytes = 0;
  if (size < sizeof bin_bytes) return 0;
  std::memcpy(&bin_bytes, data, sizeof bin_bytes);
  trainer::data::fuzz({reinterpret_cast<const char*>(data) + sizeof bin_bytes, size - sizeof bin_bytes}, bin_bytes);
  return 0;
}
