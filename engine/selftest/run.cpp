#include "engine/selftest/run.h"

#include <chrono>
#include <map>
#include <tuple>

#include "engine/selftest/first_ranks.h"
#include "engine/selftest/random_samples.h"

namespace trainer::selftest {
namespace {

using Clock = std::chrono::steady_clock;

/// Caches trained references. Only rank 0 needs them.
class References {
 public:
  const Outcome& of(const Setting& setting) {
    const auto key = std::tuple{setting.model.config, setting.lora, setting.bf16};
    const auto found = outcomes_.find(key);
    if (found != outcomes_.end()) return found->second;
    const auto alone = dist::solo_comm();
    return outcomes_[key] = train(setting.reference(), random_samples(setting.model), *alone);
  }

  /// How far the gradients are from those in fp32.
  double rounding_of(const Setting& setting) {
    Setting in_fp32 = setting;
    in_fp32.bf16 = false;
    return difference(of(setting), of(in_fp32), true).gradients;
  }

 private:
  std::map<std::tuple<std::string, bool, bool>, Outcome> outcomes_;
};

}  // namespace

std::vector<Result> run(const std::vector<Setting>& settings, dist::Comm& world,
                        const std::function<void(const Result&)>& done) {
  References references;
  FirstRanks first_ranks(world);
  std::vector<Result> results;
  for (const Setting& setting : settings) {
    if (first_ranks.include_this(setting.strategy)) {
      dist::Comm& comm = first_ranks.of(setting.strategy);
      const auto start = Clock::now();
      const Outcome found = train(setting, random_samples(setting.model), comm);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (world.rank() == 0) {
        Difference apart = difference(found, references.of(setting), setting.bf16, setting.model.gradient_tolerance);
        if (setting.bf16) apart.rounding = references.rounding_of(setting);
        results.push_back({setting, apart, seconds});
        done(results.back());
      }
    }
    world.barrier();
  }
  return results;
}

}  // namespace trainer::selftest
