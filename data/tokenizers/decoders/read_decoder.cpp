#include "data/tokenizers/decoders/decoder.h"

namespace trainer::data {
namespace {

class DecoderSequence : public Decoder {
 public:
  explicit DecoderSequence(const JsonView& view) {
    for (const JsonView& item : view.at("decoders").items()) {
      if (auto stage = read_decoder(item)) stages_.push_back(std::move(stage));
    }
  }
  void apply(std::vector<std::string>& pieces) const override {
    for (const auto& stage : stages_) stage->apply(pieces);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> stages_;
};

using DecoderReader = std::unique_ptr<Decoder> (*)(const JsonView&);

std::unique_ptr<Decoder> read_decoder_sequence(const JsonView& view) {
  return std::make_unique<DecoderSequence>(view);
}

}  // namespace

std::unique_ptr<Decoder> read_decoder(const JsonView& view) {
  if (view.is_null()) return nullptr;
  auto read = view.at("type").choice<DecoderReader>({
      {"ByteLevel", [](const JsonView&) { return make_byte_level_decoder(); }},
      {"ByteFallback", [](const JsonView&) { return make_byte_fallback(); }},
      {"Fuse", [](const JsonView&) { return make_fuse(); }},
      {"Metaspace", read_metaspace_decoder},
      {"WordPiece", read_word_piece_decoder},
      {"BPEDecoder", read_bpe_decoder},
      {"Replace", read_replace_decoder},
      {"Strip", read_strip_decoder},
      {"Sequence", read_decoder_sequence},
  });
  return read ? (*read)(view) : nullptr;
}

}  // namespace trainer::data
