// Which tokens' logits a rank has, and what ranks that have different ones add up for a loss.
#pragma once

#include <memory>

#include "models/nn/peers.h"

namespace trainer::nn {

/// The tokens whose logits are here, and how many there are in all.
struct Vocabulary {
  int64_t begin, whole;
  std::shared_ptr<const Peers> peers;  // who have the others; null: nobody

  /// The place of `label` among the logits here; -1: it is a peer's.
  int64_t place(int64_t label, int64_t width) const {
    return label >= begin && label < begin + width ? label - begin : -1;
  }
};

/// What the loss of a row is made of. The members but the first are sums, over peers too.
struct RowSums {
  double largest = 0, exp = 0, label = 0, all = 0;  // of the logits; e^(x - largest); the label's; all of them
  static constexpr int64_t kNumbers = 4;
};

/// Collective of the peers. Makes the sums of this rank's logits, [U, kNumbers] fp64, those of all.
void add_up(const Peers& peers, const at::Tensor& sums);

}  // namespace trainer::nn
