#include "engine/report/confusion.h"

#include <algorithm>
#include <set>

namespace trainer::report {
namespace {

constexpr size_t kMostClasses = 20, kLeastSamplesOfAClass = 3;

}  // namespace

Confusion confusion_of(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes) {
  if (classes.size() > kMostClasses) return {};
  Confusion confusion{classes, classes, {}};
  const auto index = [&](const std::string& name) {
    return static_cast<size_t>(std::find(classes.begin(), classes.end(), name) - classes.begin());  // of "other": last
  };
  if (std::any_of(predictions.begin(), predictions.end(),
                  [&](const auto& p) { return index(p.prediction) == classes.size(); }))
    confusion.answers.emplace_back("other");
  confusion.counts.assign(classes.size(), std::vector<int64_t>(confusion.answers.size(), 0));
  for (const Prediction& one : predictions)
    if (const size_t row = index(one.label); row < classes.size()) ++confusion.counts[row][index(one.prediction)];
  return confusion;
}

Confusion confusion_of(const std::vector<Prediction>& predictions) {
  std::set<std::string> labels;
  for (const Prediction& one : predictions) labels.insert(one.label);
  if (labels.size() < 2 || predictions.size() < kLeastSamplesOfAClass * labels.size()) return {};
  return confusion_of(predictions, {labels.begin(), labels.end()});
}

}  // namespace trainer::report
