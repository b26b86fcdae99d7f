#include "engine/prepare/show_samples.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/utf8.h"

namespace trainer::prepare {
namespace {

struct Marks {
  const char *learned, *end_learned, *other, *end_other;
  size_t most = std::string::npos;  // bytes of each part
};
constexpr Marks kPlain{"⟦", "⟧", "", ""}, kDimmed{"", "", "\x1b[2m", "\x1b[0m"}, kExcerpt{"⟦", "⟧", "", "", 120};

/// `text` in one line, without its middle if it is longer than `most` bytes.
std::string excerpt(std::string_view text, size_t most) {
  std::string line;
  for (const char c : text) line += c == '\n' ? "↵" : std::string(1, c);
  if (line.size() <= most) return line;
  const size_t head = character_begin(line, most / 2), tail = character_begin(line, line.size() - most / 2);
  return line.substr(0, head) + " … " + line.substr(tail);
}

/// The text between marks.
std::string marked(std::string_view whole, bool learned, const Marks& marks) {
  const std::string text = marks.most == std::string::npos ? std::string(whole) : excerpt(whole, marks.most);
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

/// The tokens [begin, end) of a sample.
data::Sample text_of(const data::Sample& sample, int64_t begin, int64_t end) {
  data::Sample text;
  text.source.assign(sample.source.begin() + begin, sample.source.begin() + end);
  text.labels.assign(sample.labels.begin() + begin, sample.labels.begin() + end);
  return text;
}

std::string pair(const data::Sample& sample, const data::Tokenizer& tokenizer, const Marks& marks) {
  const int64_t middle = sample.parts[1], end = std::ssize(sample.source);
  return fmt::format("chosen: {}\nrejected: {}", causal(text_of(sample, 0, middle), tokenizer, marks),
                     causal(text_of(sample, middle, end), tokenizer, marks));
}

std::string shown(const data::Sample& sample, const data::Samples& samples, const Inputs& inputs, const Marks& marks) {
  const data::LabelKind kind = samples.label_kind();
  if (!inputs.tokenizer) return fmt::format("{} pixels, class {}", sample.pixels.size(), sample.labels.front());
  if (samples.are_pairs()) return pair(sample, *inputs.tokenizer, marks);
  if (kind == data::LabelKind::kNext) return causal(sample, *inputs.tokenizer, marks);
  const std::string source = marked(inputs.tokenizer->decode(sample.source, false), false, marks);
  if (kind == data::LabelKind::kTarget)
    return fmt::format("{}\n→ {}", source, marked(inputs.tokenizer->decode(sample.labels, false), true, marks));
  const auto number = static_cast<size_t>(sample.labels.front());
  const auto& names = inputs.datasets.labels;
  return fmt::format("{}\n→ {}", source,
                     marked(number < names.size() ? names[number] : std::to_string(number), true, marks));
}

/// "12 tokens, 3 learned".
std::string counts(const data::Samples& samples, int64_t i) {
  const data::Lengths lengths = samples.lengths(i);
  return fmt::format("{} tokens, {} learned", lengths.source,
                     samples.label_kind() == data::LabelKind::kNext ? lengths.learned : lengths.labels);
}

}  // namespace

std::string show_samples(const Inputs& inputs, int64_t count, bool terminal) {
  const data::Samples& samples = *inputs.datasets.train;
  std::string out;
  for (int64_t i = 0; i < std::min(count, samples.size()); ++i) {
    data::Sample sample;
    samples.read(i, sample);
    out += fmt::format("--- sample {} of {}: {}\n{}\n", i + 1, samples.size(), counts(samples, i),
                       shown(sample, samples, inputs, terminal ? kDimmed : kPlain));
  }
  return out;
}

std::vector<std::string> sample_excerpts(const Inputs& inputs, int64_t count) {
  const data::Samples& samples = *inputs.datasets.train;
  std::vector<std::string> out;
  for (int64_t i = 0; i < std::min(count, samples.size()); ++i) {
    data::Sample sample;
    samples.read(i, sample);
    out.push_back(inputs.tokenizer ? counts(samples, i) + ": " : "");
    out.back() += shown(sample, samples, inputs, kExcerpt);
  }
  return out;
}

}  // namespace trainer::prepare
