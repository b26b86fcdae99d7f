// Times Tokenizer::encode for tools/bench/encoding.py. Opens a tokenizer once. For each line on standard input, encodes
// all lines of a file and prints the processor time in seconds, the number of tokens and a checksum of the ids.
#include <ctime>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <zlib.h>

#include "data/tokenizers/tokenizer.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer {
namespace {

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

void encode_rounds(const data::Tokenizer& tokenizer, const std::vector<std::string_view>& lines) {
  for (std::string go; std::getline(std::cin, go);) {
    std::vector<std::vector<int32_t>> ids;
    ids.reserve(lines.size());
    const std::clock_t start = std::clock();
    for (std::string_view line : lines) ids.push_back(tokenizer.encode(line));
    const double spent = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    size_t tokens = 0;
    uLong checksum = 0;
    for (const auto& line : ids) {
      tokens += line.size();
      if (line.empty()) continue;  // a null pointer would reset the checksum
      checksum = crc32_z(checksum, reinterpret_cast<const Bytef*>(line.data()), line.size() * sizeof(int32_t));
    }
    fmt::print("{} {} {}\n", spent, tokens, checksum);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace trainer

int main(int count, char** arguments) {
  if (count != 3) {
    fmt::print(stderr, "usage: encode_bench TOKENIZER_FOLDER FILE\n");
    return trainer::kUsageFailure;
  }
  try {
    auto tokenizer = trainer::data::open_tokenizer({.path = arguments[1]}, "");
    const std::string text = trainer::read_file(arguments[2], 1 << 30);
    trainer::encode_rounds(*tokenizer, trainer::lines_of(text));
  } catch (const trainer::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.code();
  }
}
