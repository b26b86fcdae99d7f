// Any bytes as a SentencePiece model: the library loads or rejects a model that passes our check without a crash, and
// its tokenizer gives valid ids; otherwise an InputError is thrown.
#include "data/tokenizers/sentencepiece_tokenizer.h"
#include "engine/base/errors.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/in_folder.h"

namespace trainer::data {
namespace {

void fuzz(std::string_view model) {
  write_fuzz_file("tokenizer_config.json", R"({"legacy": false})");  // exercises the guard after special tokens
  write_fuzz_file("spiece.model", model);
  try {
    const auto tokenizer = open_sentencepiece(fuzz_folder() / "spiece.model");
    for (std::string_view text : {"", "It's  a</s>\u00e9\u0301 12\n", "\u2581\ufb01 \U0001f44d ab a b"}) {
      const auto ids = tokenizer->encode(text, true);
      for (const int32_t id : ids) check(id >= 0 && id < tokenizer->size(), "ids are in the vocabulary");
      tokenizer->decode(ids, false);
      tokenizer->decode(ids, true);
    }
  } catch (const InputError&) {
  }
}

}  // namespace
}  // namespace trainer::data

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, std::size_t size) {
  trainer::data::fuzz(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
