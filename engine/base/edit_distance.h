// The edit distance of two names, for "did you mean".
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The number of letters to insert, delete, replace, or swap with their neighbor to turn `a` into `b`, ignoring case.
/// Costs |a| * |b|: only for short names.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate nearest to `name`, or "" when none is similar enough.
std::string nearest(std::string_view name, const std::vector<std::string>& candidates);

/// " (did you mean 'x'?)" or "".
std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace trainer
