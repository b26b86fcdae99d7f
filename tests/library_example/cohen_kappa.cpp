#include "cohen_kappa.h"

#include <map>
#include <string>

namespace example {

double cohen_kappa(const std::vector<trainer::evaluation::Prediction>& predictions) {
  std::map<std::string, double> predicted, labeled;
  double equal = 0;
  for (const auto& one : predictions) {
    ++predicted[one.prediction];
    ++labeled[one.label];
    equal += one.correct() ? 1 : 0;
  }
  const auto samples = static_cast<double>(predictions.size());
  double by_chance = 0;
  for (const auto& [name, count] : labeled) by_chance += count / samples * (predicted[name] / samples);
  return samples == 0 || by_chance == 1 ? 0 : (equal / samples - by_chance) / (1 - by_chance);
}

}  // namespace example
