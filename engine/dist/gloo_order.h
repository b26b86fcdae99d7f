// The order in which the ranks' values are added up.
#pragma once

#include <cstdint>

namespace trainer::dist {

// Note [Gloo's order]
// Sums have the bits of Gloo's ring, so that a run on one machine equals one on several. Gloo cuts a tensor into a
// part for each rank, of whole segments, at least two and each of at most a MiB; the sum of part p begins with the
// values of rank p - 1 and adds those of p - 2, p - 3, …, p. `dist_test` compares the two bit by bit.

/// Values in each rank's part of a tensor of `count` values; with two ranks, whose values have only one sum, all.
int64_t gloo_part(int64_t count, int64_t width, int ranks);

}  // namespace trainer::dist
