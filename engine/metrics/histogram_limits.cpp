#include "engine/metrics/histogram_limits.h"

namespace trainer::metrics {

const std::vector<double>& histogram_limits() {
  static const std::vector<double> limits = [] {
    std::vector<double> positive;
    for (double limit = 1e-12; limit < 1e20; limit *= 1.1) positive.push_back(limit);
    std::vector<double> all;
    for (auto limit = positive.rbegin(); limit != positive.rend(); ++limit) all.push_back(-*limit);
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return limits;
}

}  // namespace trainer::metrics
