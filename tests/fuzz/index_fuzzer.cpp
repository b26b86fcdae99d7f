// Any bytes as model.safetensors.index.json next to one valid shard: only that shard is ever opened, or an InputError
// is thrown.
#include <cstring>

#include "engine/base/errors.h"
#include "engine/tensorfile/tensor_folder.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/in_folder.h"

namespace trainer::tensorfile {
namespace {

std::string shard() {
  const std::string json = R"({"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},)"
                           R"("b":{"dtype":"U8","shape":[],"data_offsets":[2,3]}})";
  const uint64_t size = json.size();
  std::string file(8, '\0');
  std::memcpy(file.data(), &size, 8);
  return file + json + "abc";
}

void fuzz(std::string_view index) {
  static const bool written = (write_fuzz_file("s.safetensors", shard()), true);
  check(written, "the shard exists");
  write_fuzz_file("model.safetensors.index.json", index);
  try {
    const TensorFolder folder(fuzz_folder());
    for (const std::string& name : folder.names()) {
      check(name == "a" || name == "b", "no tensor but those of the shard");
      check(folder.find(name)->path() == fuzz_folder() / "s.safetensors", "no file but the shard");
    }
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace trainer::tensorfile

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  trainer::tensorfile::fuzz(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
