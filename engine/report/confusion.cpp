#include "engine/report/confusion.h"

#include <algorithm>
#include <set>

namespace trainer::report {
namespace {

constexpr size_t kMostClasses = 20, kLeastSamplesOfAClass = 3;

}  // namespace

Confusion confusion_of(const std::vector<Prediction>& predictions) {
  std::set<std::string> labels;
  for (const Prediction& one : predictions) labels.insert(one.label);
  if (labels.size() < 2 || labels.size() > kMostClasses || predictions.size() < kLeastSamplesOfAClass * labels.size())
    return {};
  Confusion confusion;
  confusion.labels.assign(labels.begin(), labels.end());
  confusion.answers = confusion.labels;
  if (std::any_of(predictions.begin(), predictions.end(),
                  [&](const auto& p) { return !labels.contains(p.prediction); }))
    confusion.answers.emplace_back("other");
  confusion.counts.assign(labels.size(), std::vector<int64_t>(confusion.answers.size(), 0));
  const auto index = [&](const std::string& name) {
    return std::distance(labels.begin(), labels.find(name));  // of "other": the number of labels
  };
  for (const Prediction& one : predictions) ++confusion.counts[index(one.label)][index(one.prediction)];
  return confusion;
}

}  // namespace trainer::report
