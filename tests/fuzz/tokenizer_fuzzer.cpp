// Any bytes as a tokenizer.json and, after a NUL, a text give a tokenizer with valid ids, offsets inside the text and
// the same ids with and without offsets, or an InputError; and the same ids if its lists are read on their own.
#include "data/json/parse_json.h"
#include "data/tokenizers/json_tokenizer.h"
#include "data/tokenizers/text/characters.h"
#include "engine/base/errors.h"
#include "tests/fuzz/fuzz.h"

namespace trainer::data {
namespace {

constexpr size_t kMaxText = 64;  // a malicious expression may take long for each byte

void check_tokens(const Tokenizer& tokenizer, std::string_view text) {
  std::string repaired;
  size_t size = repair_utf8(text, repaired) ? repaired.size() : text.size();
  TokenOffsets tokens = tokenizer.encode_with_offsets(text, false);
  for (size_t i = 0; i < tokens.ids.size(); ++i) {
    check(tokens.ids[i] >= 0 && tokens.ids[i] < tokenizer.size(), "ids are in the vocabulary");
    check(tokens.begins[i] <= tokens.ends[i] && tokens.ends[i] <= size, "offsets are inside the text");
  }
  check(tokenizer.encode(text, false) == tokens.ids, "the same ids without offsets");
  tokenizer.decode(tokens.ids, false);
  tokenizer.decode(tokenizer.encode(text, true), true);
}

/// The tokenizer whose lists are read on their own. Null: not the usual file, or a faulty one.
std::unique_ptr<Tokenizer> read_quickly(std::string_view file) {
  auto parsed = parse_bpe_tokenizer(file);
  try {
    return parsed ? make_json_tokenizer(parsed->root, "f", {}, &parsed->lists) : nullptr;
  } catch (const InputError&) {
    return nullptr;
  }
}

void fuzz(std::string_view input) {
  size_t end = std::min(input.find('\0'), input.size());
  std::string_view text = input.substr(std::min(end + 1, input.size())).substr(0, kMaxText);
  const auto quick = read_quickly(input.substr(0, end));
  std::unique_ptr<Tokenizer> tokenizer;
  try {
    tokenizer = make_json_tokenizer(parse_json(input.substr(0, end), "f"), "f", {});
  } catch (const InputError&) {
    check(quick == nullptr, "a faulty file is not read quickly");
    return;
  }
  try {
    check_tokens(*tokenizer, text);
    if (quick) check(quick->encode(text, false) == tokenizer->encode(text, false), "the same ids when read quickly");
    for (std::string_view more : {"It's  a<s>\u00e9\u0301 12\n", "\u2581\ufb01 \U0001f44d\U0001f3fd the"}) {
      check_tokens(*tokenizer, more);
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
