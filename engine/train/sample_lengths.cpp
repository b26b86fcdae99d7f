#include "engine/train/sample_lengths.h"

#include <algorithm>

namespace trainer::train {
namespace {

/// The smallest width of 1, 2 or 5 times a power of ten with which `bars` bars cover `span`.
int64_t bar_width(int64_t span, int64_t bars) {
  for (int64_t power = 1;; power *= 10)
    for (const int64_t digit : {1, 2, 5})
      if (digit * power * bars >= span) return digit * power;
}

LengthReport length_report(const std::vector<int64_t>& lengths) {
  constexpr int64_t kBars = 8;
  LengthReport report;
  if (lengths.empty()) return report;
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  report.shortest = *least, report.longest = *most;
  int64_t width = bar_width(report.longest - report.shortest + 1, kBars - 1);  // one spare: bars start at multiples
  const int64_t first = report.shortest / width * width;
  for (int64_t from = first; from <= report.longest; from += width)
    report.histogram.push_back({from, from + width - 1, 0});
  double sum = 0;
  for (const int64_t length : lengths) {
    ++report.histogram[(length - first) / width].samples;
    sum += static_cast<double>(length);
  }
  report.mean = sum / static_cast<double>(lengths.size());
  return report;
}

}  // namespace

SampleLengths sample_lengths(const data::Samples& samples, int64_t most) {
  std::vector<int64_t> sources, targets;
  const int64_t stride = std::max<int64_t>(1, (samples.size() - 1) / std::max<int64_t>(1, most) + 1);
  for (int64_t i = 0; i < samples.size(); i += stride) {
    const data::Lengths lengths = samples.lengths(i);
    sources.push_back(lengths.source);
    if (samples.label_kind() == data::LabelKind::kTarget) targets.push_back(lengths.labels);
    if (samples.label_kind() == data::LabelKind::kNext) targets.push_back(lengths.learned);
  }
  return {length_report(sources), length_report(targets)};
}

}  // namespace trainer::train
