#include "engine/evaluation/class_scores.h"

#include <cmath>
#include <cstdint>

namespace trainer::evaluation {
namespace {

/// How often a text is the label, the prediction, and both.
struct ClassCounts {
  double labels = 0, predictions = 0, both = 0;
};

double ratio(double part, double whole) {
  return whole == 0 ? 0 : part / whole;
}

}  // namespace

std::map<std::string, double> class_scores(const std::vector<Prediction>& predictions) {
  std::map<std::string, ClassCounts> classes;
  for (const Prediction& one : predictions) {
    ++classes[one.label].labels;
    ++classes[one.prediction].predictions;
    if (one.correct()) ++classes[one.label].both;
  }
  const auto samples = static_cast<double>(predictions.size()), count = static_cast<double>(classes.size());
  double correct = 0, precision = 0, recall = 0, f1 = 0, weighted = 0;
  double both = 0, predicted_squared = 0, labels_squared = 0;  // of the contingency table's margins
  for (const auto& [text, c] : classes) {
    correct += c.both;
    precision += ratio(c.both, c.predictions);
    recall += ratio(c.both, c.labels);
    const double of_class = ratio(2 * c.both, c.labels + c.predictions);
    f1 += of_class;
    weighted += of_class * c.labels;
    both += c.predictions * c.labels;
    predicted_squared += c.predictions * c.predictions;
    labels_squared += c.labels * c.labels;
  }
  const double covariance = correct * samples - both;
  const double spread = std::sqrt((samples * samples - predicted_squared) * (samples * samples - labels_squared));
  const double accuracy = ratio(correct, samples);
  return {{"accuracy", accuracy},
          {"f1_micro", accuracy},  // every sample has one label and one prediction
          {"precision_macro", ratio(precision, count)},
          {"recall_macro", ratio(recall, count)},
          {"f1_macro", ratio(f1, count)},
          {"f1_weighted", ratio(weighted, samples)},
          {"matthews_correlation", ratio(covariance, spread)}};
}

}  // namespace trainer::evaluation
