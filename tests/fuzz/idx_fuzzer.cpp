// Any bytes as an IDX file, plain and as gzip, give an array whose sizes match its bytes, or an InputError.
#include "data/readers/byte_source.h"
#include "data/readers/idx.h"
#include "engine/base/errors.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::data {
namespace {

void read(std::string_view bytes) try {
  const IdxArray array = parse_idx(bytes, "f");
  check(!array.sizes.empty(), "an array has a dimension");
  auto count = static_cast<__uint128_t>(value_bytes(array.type));
  for (int64_t size : array.sizes) count *= static_cast<__uint128_t>(size);
  check(count == array.values.size(), "the number of values matches the sizes");
  check(bytes.ends_with(array.values), "the values are the file's end");
} catch (const InputError&) {
}

void unpack(std::string_view bytes) try {
  const std::string content = read_idx(*unpacked(bytes_of(std::string(bytes)), "f"), "f");
  if (bytes[0] == 0) check(bytes.starts_with(content), "uncompressed bytes are returned unchanged");
  read(content);
} catch (const InputError&) {
}

}  // namespace
}  // namespace trainer::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  trainer::data::read(bytes);
  trainer::data::unpack(bytes);
  return 0;
}
