// Any bytes as the header of a safetensors file give tensors that fill the data without gaps and survive writing and
// reading, or an InputError. The first two bytes are the size of the data.
#include <algorithm>

#include "engine/base/errors.h"
#include "engine/base/utf8.h"
#include "engine/tensorfile/header.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::tensorfile {
namespace {

bool same(const TensorInfo& a, const TensorInfo& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.offset == b.offset && a.bytes == b.bytes;
}

void fuzz(std::string_view json, int64_t bytes) {
  try {
    const Header header = parse_header(json, bytes, "f");
    int64_t end = 0;
    for (const TensorInfo& tensor : header.tensors) {
      check(tensor.offset == end && tensor.bytes >= 0, "a tensor begins where the last one ends");
      check(is_utf8(tensor.name), "a name is UTF-8");
      end += tensor.bytes;
    }
    check(end == bytes, "the tensors fill the data");
    const Header again = parse_header(format_header(header), bytes, "f");
    check(again.metadata == header.metadata, "metadata survives");
    check(std::equal(again.tensors.begin(), again.tensors.end(), header.tensors.begin(), header.tensors.end(), same),
          "tensors survive");
  } catch (const InputError& error) {
    const std::string text = error.what();
    check(std::count(text.begin(), text.end(), '\n') < 6 && text.size() < 4000, "a short message");
  }
}

}  // namespace
}  // namespace trainer::tensorfile

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const int64_t bytes = data[0] | data[1] << 8;
  trainer::tensorfile::fuzz(std::string_view(reinterpret_cast<const char*>(data) + 2, size - 2), bytes);
  return 0;
}
