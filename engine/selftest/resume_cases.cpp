#include <algorithm>
#include <numeric>
#include <random>

#include <fmt/format.h>

#include "engine/selftest/matrix.h"
#include "engine/selftest/resume.h"

namespace trainer::selftest {

std::string ResumeCase::name() const {
  return fmt::format("{} {} {} -> {}", model.name, lora ? "LoRA" : "full", from.name, to.name);
}

std::vector<ResumeCase> resume_cases(int ranks, bool all_models, bool on_devices) {
  const auto ways = strategies(ranks, on_devices);
  std::vector<ResumeCase> all;
  for (const TinyModel& model : tiny_models()) {
    if (!model.splits || !model.stages) continue;
    for (const bool lora : {false, true})
      for (const Strategy& from : ways)
        for (const Strategy& to : ways) all.push_back({model, lora, from, to});
    if (!all_models) break;
  }
  if (!all_models) std::erase_if(all, [](const ResumeCase& one) { return one.lora; });
  return all;
}

std::vector<ResumeCase> drawn(const std::vector<ResumeCase>& cases, uint64_t seed, int64_t count) {
  std::vector<size_t> places(cases.size());
  std::iota(places.begin(), places.end(), 0);
  std::mt19937_64 draws(seed);
  std::shuffle(places.begin(), places.end(), draws);
  places.resize(std::min(places.size(), static_cast<size_t>(count)));
  std::sort(places.begin(), places.end());
  std::vector<ResumeCase> some;
  for (const size_t place : places) some.push_back(cases[place]);
  return some;
}

}  // namespace trainer::selftest
