// Any bytes as a checkpoint's manifest with a valid seal give complete tensors in files of the folder, and the same
// manifest after writing and reading, or an InputError.
#include "engine/base/errors.h"
#include "engine/checkpoint/manifest.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/in_folder.h"

namespace trainer::checkpoint {
namespace {

void check_manifest(const Manifest& manifest) {
  check(manifest.progress.step >= 0 && manifest.progress.consumed >= 0, "nothing is negative");
  for (const StoredFile& file : manifest.files) {
    check(file.name.find('/') == std::string::npos && file.name != "..", "a file is inside the folder");
    check(file.bytes >= 0, "a size is not negative");
  }
  for (const SavedTensor& tensor : manifest.tensors) {
    int64_t numel = 1, stored = 0;
    for (const int64_t size : tensor.shape) numel *= size;
    for (const SavedPiece& piece : tensor.pieces) {
      check(piece.file.find('/') == std::string::npos, "a piece is inside the folder");
      for (const nn::Run& run : nn::runs_of(piece.part, tensor.shape, piece.begin, piece.end)) stored += run.count;
    }
    check(stored == numel, "every element is stored once");
  }
}

void fuzz(const std::string& text) {
  static const bool written = (write_fuzz_file("f", std::string(64, 'x')), true);
  check(written, "a file exists");
  if (text.find_last_of('}') == std::string::npos) return;
  write_fuzz_file("manifest.json", sealed(text));
  try {
    read_contents(fuzz_folder());
  } catch (const InputError&) {
  }
  try {
    const Manifest manifest = read_manifest(fuzz_folder().string());
    check_manifest(manifest);
    write_fuzz_file("manifest.json", to_json(manifest));
    check(to_json(read_manifest(fuzz_folder().string())) == to_json(manifest), "the same after writing and reading");
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace trainer::checkpoint

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  trainer::checkpoint::fuzz(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}
