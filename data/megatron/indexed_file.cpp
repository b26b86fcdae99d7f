#include "data/megatron/indexed_file.h"

#include <cstring>
#include <filesystem>

#include "engine/base/errors.h"

namespace trainer::data {
namespace {

/// Maps `prefix` + `ending`; the error for a missing file names its path and the file that exists.
MappedFile map_file(const std::string& prefix, const std::string& ending) {
  const std::string path = prefix + ending;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored)) return MappedFile(path);
  const std::string other = prefix + (ending == ".bin" ? ".idx" : ".bin");
  throw InputError(
      "{}: no such file{}.\nA Megatron corpus consists of two files, PREFIX.bin and PREFIX.idx; `trainer tokenize "
      "--output PREFIX` writes them.",
      path, std::filesystem::exists(other, ignored) ? fmt::format(", but {} exists", other) : "");
}

/// Copies tokens of type T; returns the index in `tokens` of the first that is not an id below `vocabulary`, or their
/// number.
template <class T>
size_t copy_tokens(const char* from, std::span<int32_t> tokens, int64_t vocabulary) {
  for (size_t i = 0; i < tokens.size(); ++i) {
    T token;
    std::memcpy(&token, from + i * sizeof(T), sizeof(T));
    // Comparisons with NaN are false. Both limits are exact in every type that can represent them.
    if (!(token >= T{0} && static_cast<double>(token) < static_cast<double>(vocabulary))) return i;
    tokens[i] = static_cast<int32_t>(token);
    if (static_cast<T>(tokens[i]) != token) return i;  // 1.5
  }
  return tokens.size();
}

size_t copy_tokens(TokenType type, const char* from, std::span<int32_t> tokens, int64_t vocabulary) {
  switch (type) {
    case TokenType::kUint8:
      return copy_tokens<uint8_t>(from, tokens, vocabulary);
    case TokenType::kInt8:
      return copy_tokens<int8_t>(from, tokens, vocabulary);
    case TokenType::kInt16:
      return copy_tokens<int16_t>(from, tokens, vocabulary);
    case TokenType::kInt32:
      return copy_tokens<int32_t>(from, tokens, vocabulary);
    case TokenType::kInt64:
      return copy_tokens<int64_t>(from, tokens, vocabulary);
    case TokenType::kFloat64:
      return copy_tokens<double>(from, tokens, vocabulary);
    case TokenType::kFloat32:
      return copy_tokens<float>(from, tokens, vocabulary);
    case TokenType::kUint16:
      return copy_tokens<uint16_t>(from, tokens, vocabulary);
  }
  throw InternalError("unknown token type {}", static_cast<int>(type));
}

/// The token at `from` as text, for a message.
std::string describe(TokenType type, const char* from) {
  auto value = [&](auto token) {
    std::memcpy(&token, from, sizeof token);
    return fmt::format("{}", token);
  };
  switch (type) {
    case TokenType::kInt8:
      return value(int8_t{});
    case TokenType::kInt16:
      return value(int16_t{});
    case TokenType::kInt32:
      return value(int32_t{});
    case TokenType::kInt64:
      return value(int64_t{});
    case TokenType::kFloat64:
      return value(double{});
    case TokenType::kFloat32:
      return value(float{});
    case TokenType::kUint8:
      return value(uint8_t{});
    case TokenType::kUint16:
      return value(uint16_t{});
  }
  return "?";
}

}  // namespace

std::string corpus_prefix(const std::string& path) {
  bool has_ending = path.ends_with(".bin") || path.ends_with(".idx");
  return has_ending ? path.substr(0, path.size() - 4) : path;
}

IndexedFile::IndexedFile(const std::string& path)
    : prefix_(corpus_prefix(path)),
      bin_(map_file(prefix_, ".bin")),
      idx_(map_file(prefix_, ".idx")),
      index_(idx_.bytes(), prefix_ + ".idx", static_cast<int64_t>(bin_.bytes().size())) {}

void IndexedFile::read(int64_t sequence, int64_t offset, std::span<int32_t> tokens, int64_t vocabulary) const {
  const auto count = static_cast<int64_t>(tokens.size());
  require(sequence >= 0 && sequence < index_.sequences() && offset >= 0 && offset <= index_.length(sequence) - count,
          "tokens {} to {} of sequence {} of {}", offset, offset + count, sequence, prefix_);
  if (tokens.empty()) return;
  const int64_t size = token_bytes(index_.type());
  const char* from = bin_.bytes().data() + index_.offset(sequence) + offset * size;
  const auto good = static_cast<int64_t>(copy_tokens(index_.type(), from, tokens, vocabulary));
  if (good == count) return;
  throw InputError(
      "{}.bin: token {} of sequence {} is {}, not an id in [0, {}).\nWas the corpus made by another tokenizer?",
      prefix_, offset + good, sequence, describe(index_.type(), from + good * size), vocabulary);
}

}  // namespace trainer::data
