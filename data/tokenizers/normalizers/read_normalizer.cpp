#include <vector>

#include "data/tokenizers/normalizers/normalizer.h"

namespace trainer::data {
namespace {

class NormalizerSequence : public Normalizer {
 public:
  explicit NormalizerSequence(const JsonView& view) {
    for (const JsonView& item : view.at("normalizers").items()) {
      if (auto stage = read_normalizer(item)) stages_.push_back(std::move(stage));
    }
  }
  void apply(AlignedText& text) const override {
    for (const auto& stage : stages_) stage->apply(text);
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> stages_;
};

using NormalizerReader = std::unique_ptr<Normalizer> (*)(const JsonView&);

std::unique_ptr<Normalizer> read_normalizer_sequence(const JsonView& view) {
  return std::make_unique<NormalizerSequence>(view);
}

}  // namespace

std::unique_ptr<Normalizer> read_normalizer(const JsonView& view) {
  if (view.is_null()) return nullptr;
  auto read = view.at("type").choice<NormalizerReader>({
      {"NFC", [](const JsonView&) { return make_unicode_form(true, false); }},
      {"NFD", [](const JsonView&) { return make_unicode_form(false, false); }},
      {"NFKC", [](const JsonView&) { return make_unicode_form(true, true); }},
      {"NFKD", [](const JsonView&) { return make_unicode_form(false, true); }},
      {"Lowercase", [](const JsonView&) { return make_lowercase(); }},
      {"StripAccents", [](const JsonView&) { return make_strip_accents(); }},
      {"Nmt", [](const JsonView&) { return make_nmt(); }},
      {"ByteLevel", [](const JsonView&) { return make_byte_level_normalizer(); }},
      {"Strip", read_strip},
      {"Replace", read_replace},
      {"Prepend", read_prepend},
      {"BertNormalizer", read_bert_normalizer},
      {"Precompiled", read_precompiled},
      {"Sequence", read_normalizer_sequence},
  });
  return read ? (*read)(view) : nullptr;
}

}  // namespace trainer::data
