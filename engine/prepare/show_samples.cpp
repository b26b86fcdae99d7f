#include "engine/prepare/show_samples.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainer::prepare {
namespace {

struct Marks {
  const char *learned, *end_learned, *other, *end_other;
};
constexpr Marks kPlain{"⟦", "⟧", "", ""}, kDimmed{"", "", "\x1b[2m", "\x1b[0m"};

/// The text between marks.
std::string marked(std::string_view text, bool learned, const Marks& marks) {
  return fmt::format("{}{}{}", learned ? marks.learned : marks.other, text,
                     learned ? marks.end_learned : marks.end_other);
}

/// Token i is learned when it is the label of the token before it.
bool is_learned(const data::Sample& sample, size_t i) {
  return i > 0 && sample.labels[i - 1] == sample.source[i];
}

/// Cuts runs of tokens out of the decoded prefix: decoded alone, they would lose the space in front of them.
std::string causal(const data::Sample& sample, const data::Tokenizer& tokenizer, const Marks& marks) {
  std::string out, before;
  for (size_t begin = 0, end = 0; begin < sample.source.size(); begin = end) {
    const bool learned = is_learned(sample, begin);
    while (end < sample.source.size() && is_learned(sample, end) == learned) ++end;
    std::string text = tokenizer.decode(std::span(sample.source).first(end), false);
    out += marked(std::string_view(text).substr(std::min(before.size(), text.size())), learned, marks);
    before = std::move(text);
  }
  return out;
}

std::string shown(const data::Sample& sample, data::LabelKind kind, const Inputs& inputs, const Marks& marks) {
  if (!inputs.tokenizer) return fmt::format("{} pixels, class {}", sample.pixels.size(), sample.labels.front());
  if (kind == data::LabelKind::kNext) return causal(sample, *inputs.tokenizer, marks);
  const std::string source = marked(inputs.tokenizer->decode(sample.source, false), false, marks);
  if (kind == data::LabelKind::kTarget)
    return fmt::format("{}\n→ {}", source, marked(inputs.tokenizer->decode(sample.labels, false), true, marks));
  const auto number = static_cast<size_t>(sample.labels.front());
  const auto& names = inputs.datasets.labels;
  return fmt::format("{}\n→ {}", source,
                     marked(number < names.size() ? names[number] : std::to_string(number), true, marks));
}

}  // namespace

std::string show_samples(const Inputs& inputs, int64_t count, bool terminal) {
  const data::Samples& samples = *inputs.datasets.train;
  std::string out;
  for (int64_t i = 0; i < std::min(count, samples.size()); ++i) {
    data::Sample sample;
    samples.read(i, sample);
    const data::Lengths lengths = samples.lengths(i);
    out += fmt::format("--- sample {} of {}: {} tokens, {} learned\n{}\n", i + 1, samples.size(), lengths.source,
                       samples.label_kind() == data::LabelKind::kNext ? lengths.learned : lengths.labels,
                       shown(sample, samples.label_kind(), inputs, terminal ? kDimmed : kPlain));
  }
  return out;
}

}  // namespace trainer::prepare
