// Rows of tokens that ranks share out among themselves: each works on some, and they meet where all are needed.
#pragma once

#include <vector>

#include "models/nn/layout.h"
#include "models/nn/peers.h"

namespace trainer::nn {

// Note [Shared rows]
// Two ways of spreading a sequence over ranks are made of this. Sequence parallel: the ranks that share the layers
// share the rows between these too, a stretch of the batch each; a region begins by gathering them and ends by adding
// up shares, of which each rank takes its own rows. Context parallel: ranks share the rows all along, and gather only
// the keys and values that their queries meet. Every place that adds, drops or normalises sees its own rows, and random
// draws are numbered by a token's place in its sample (Layout::stretches).

/// Who has which rows. Every member is a collective of the peers, and autograd goes through it.
class SharedRows {
 public:
  using PeersPtr = std::shared_ptr<const Peers>;
  /// `rows`: by peer, the ranges of rows that it has, in its order. Together they are all rows, each once.
  SharedRows(PeersPtr peers, const std::vector<std::vector<Range>>& rows);

  /// Every peer's rows [t, W] → all of them [T, W]. Backward: gradients are added up.
  static at::Tensor all(const LayoutPtr& rows, const at::Tensor& mine);
  /// The same for what every peer then goes on with alike, so that all have the same gradient of it.
  static at::Tensor all_alike(const LayoutPtr& rows, const at::Tensor& mine);
  /// Of the sum of every peer's `shares` [T, W], the rows of this one [t, W]. `shares` is overwritten.
  static at::Tensor sum(const LayoutPtr& rows, const at::Tensor& shares);

  /// Without autograd: gathers; adds up and takes; takes.
  at::Tensor gather(const at::Tensor& mine) const;
  at::Tensor add_up(const at::Tensor& shares) const;
  at::Tensor take(const at::Tensor& all) const;

  int64_t count() const { return count_; }  // rows of all peers

 private:
  PeersPtr peers_;
  int64_t count_ = 0, most_ = 0;  // rows of all peers; of the one that has most
  // Numbers of rows; on the CPU until they are needed elsewhere.
  mutable at::Tensor own_;     // of this peer's rows
  mutable at::Tensor places_;  // of each row among what the peers send, each `most_` rows; undefined: they are in order
};

/// Stretch number `rank` of `rows`, of as many as there are peers, one behind the other.
LayoutPtr stretch_of(const LayoutPtr& rows, const SharedRows::PeersPtr& peers);

}  // namespace trainer::nn
