#include "engine/selftest/run.h"

#include <chrono>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "engine/selftest/random_samples.h"
#include "engine/selftest/unshared_comm.h"

namespace trainer::selftest {
namespace {

using Clock = std::chrono::steady_clock;

/// References that have been trained already. Only rank 0 needs them.
class References {
 public:
  const Outcome& of(const Setting& setting) {
    const auto key = std::tuple{setting.model.config, setting.lora, setting.bf16};
    const auto found = outcomes_.find(key);
    if (found != outcomes_.end()) return found->second;
    const auto alone = dist::solo_comm();
    return outcomes_[key] = train(setting.reference(), random_samples(setting.model), *alone);
  }

 private:
  std::map<std::tuple<std::string, bool, bool>, Outcome> outcomes_;
};

/// A communicator of the ranks 0 to `ranks` - 1, for those.
std::unique_ptr<dist::Comm> first_ranks(dist::Comm& world, int ranks, bool share_memory) {
  std::vector<int> numbers(static_cast<size_t>(ranks));
  std::iota(numbers.begin(), numbers.end(), 0);
  auto comm = world.group(fmt::format("first {}{}", ranks, share_memory ? "" : " sent"), numbers);
  return share_memory ? std::move(comm) : std::make_unique<UnsharedComm>(std::move(comm));
}

}  // namespace

std::vector<Result> run(const std::vector<Setting>& settings, dist::Comm& world,
                        const std::function<void(const Result&)>& done) {
  References references;
  std::map<std::pair<int, bool>, std::unique_ptr<dist::Comm>> comms;
  std::vector<Result> results;
  for (const Setting& setting : settings) {
    if (world.rank() < setting.strategy.ranks) {
      auto& group = comms[{setting.strategy.ranks, setting.strategy.share_memory}];
      const bool all = setting.strategy.ranks == world.size() && setting.strategy.share_memory;
      if (!all && !group) group = first_ranks(world, setting.strategy.ranks, setting.strategy.share_memory);
      dist::Comm& comm = all ? world : *group;
      const auto start = Clock::now();
      const Outcome found = train(setting, random_samples(setting.model), comm);
      const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
      if (world.rank() == 0) {
        results.push_back(
            {setting, difference(found, references.of(setting), setting.bf16, setting.gradient_tolerance), seconds});
        done(results.back());
      }
    }
    world.barrier();
  }
  return results;
}

}  // namespace trainer::selftest
