// The decoders that combine bytes.
#include <charconv>

#include "data/tokenizers/decoders/decoder.h"
#include "data/tokenizers/models/byte_alphabet.h"
#include "data/tokenizers/text/characters.h"
#include "engine/base/utf8.h"

namespace trainer::data {
namespace {

class ByteLevelDecoder : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string bytes, repaired;
    for (const std::string& piece : pieces) append(piece, bytes);
    pieces.assign(1, repair_utf8(bytes, repaired) ? std::move(repaired) : std::move(bytes));
  }

 private:
  /// Appends the bytes that `piece` spells, or `piece` itself if one of its characters isn't in the byte alphabet.
  static void append(const std::string& piece, std::string& bytes) {
    size_t before = bytes.size();
    for (size_t at = 0; at < piece.size();) {
      Char c = char_at(piece, at);
      std::optional<unsigned char> byte = ByteAlphabet::instance().byte_of(c.code);
      if (!byte) {
        bytes.resize(before);
        bytes += piece;
        return;
      }
      bytes += static_cast<char>(*byte);
      at += c.length;
    }
  }
};

/// Pieces such as <0x61> are bytes; in a run of them that isn't valid UTF-8, each byte becomes U+FFFD.
class ByteFallback : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::vector<std::string> result;
    std::string run;
    auto flush = [&] {
      if (is_utf8(run)) {
        if (!run.empty()) result.push_back(run);
      } else {
        result.insert(result.end(), run.size(), "\uFFFD");
      }
      run.clear();
    };
    for (std::string& piece : pieces) {
      int byte = byte_of(piece);
      if (byte >= 0) {
        run += static_cast<char>(byte);
        continue;
      }
      flush();
      result.push_back(std::move(piece));
    }
    flush();
    pieces = std::move(result);
  }

 private:
  static int byte_of(const std::string& piece) {
    if (piece.size() != 6 || !piece.starts_with("<0x") || piece.back() != '>') return -1;
    int byte = -1;
    auto [end, error] = std::from_chars(&piece[3], &piece[5], byte, 16);
    return error == std::errc() && end == &piece[5] ? byte : -1;
  }
};

class Fuse : public Decoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    pieces.assign(1, std::move(all));
  }
};

}  // namespace

std::unique_ptr<Decoder> make_byte_level_decoder() {
  return std::make_unique<ByteLevelDecoder>();
}

std::unique_ptr<Decoder> make_byte_fallback() {
  return std::make_unique<ByteFallback>();
}

std::unique_ptr<Decoder> make_fuse() {
  return std::make_unique<Fuse>();
}

}  // namespace trainer::data
