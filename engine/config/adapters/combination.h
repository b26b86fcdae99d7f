// The ways to combine several LoRA adapters into one.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace trainer::config {

/// A `combination_type` of PEFT's add_weighted_adapter. All begin with the weighted sum of the adapters' tensors.
struct Combination {
  enum class Prune { kNone, kMagnitude, kRandom };

  std::string_view name;
  Prune prune = Prune::kNone;  // which values of each adapter become 0
  bool elects_sign = false;    // TIES: values whose sign differs from the majority's don't count
  bool decomposes = false;     // combines the products B A and decomposes the result; else A and B by themselves
  bool concatenates = false;   // instead of the sum: A and B next to each other

  /// A and B can be combined by themselves only if all adapters have the same rank.
  bool needs_equal_ranks() const { return !decomposes && !concatenates; }
};

inline constexpr std::array<Combination, 11> kCombinations{{
    {.name = "svd", .decomposes = true},
    {.name = "linear"},
    {.name = "cat", .concatenates = true},
    {.name = "ties", .prune = Combination::Prune::kMagnitude, .elects_sign = true},
    {.name = "ties_svd", .prune = Combination::Prune::kMagnitude, .elects_sign = true, .decomposes = true},
    {.name = "dare_ties", .prune = Combination::Prune::kRandom, .elects_sign = true},
    {.name = "dare_ties_svd", .prune = Combination::Prune::kRandom, .elects_sign = true, .decomposes = true},
    {.name = "dare_linear", .prune = Combination::Prune::kRandom},
    {.name = "dare_linear_svd", .prune = Combination::Prune::kRandom, .decomposes = true},
    {.name = "magnitude_prune", .prune = Combination::Prune::kMagnitude},
    {.name = "magnitude_prune_svd", .prune = Combination::Prune::kMagnitude, .decomposes = true},
}};

/// Null: no combination has this name.
inline const Combination* find_combination(std::string_view name) {
  const auto* const found = std::find_if(kCombinations.begin(), kCombinations.end(),
                                         [&](const Combination& combination) { return combination.name == name; });
  return found == kCombinations.end() ? nullptr : found;
}

/// Their names that satisfy `condition`.
template <class Condition>
std::vector<std::string> combinations_that(Condition&& condition) {
  std::vector<std::string> names;
  for (const Combination& combination : kCombinations)
    if (condition(combination)) names.emplace_back(combination.name);
  return names;
}

}  // namespace trainer::config
