// The ranks that share each layer of a model, as the layers know them.
#pragma once

#include <memory>

#include <ATen/core/Tensor.h>

#include "models/nn/part.h"

namespace trainer::nn {

/// All peers call the same members in the same order, with equal shapes and dtypes.
class Peers {
 public:
  virtual ~Peers() = default;
  /// Collective, in place, the same bits on every peer.
  virtual void sum(const at::Tensor& tensor) const = 0;
  virtual void max(const at::Tensor& tensor) const = 0;
  /// Collective. What every peer has, `mine` [n, W], one behind the other: [n * size(), W].
  virtual at::Tensor gather(const at::Tensor& mine) const = 0;
  virtual int rank() const = 0;
  virtual int size() const = 0;
};

/// A vocabulary whose tokens are shared out among peers: this rank has the logits of those in `mine`.
struct SharedVocabulary {
  std::shared_ptr<const Peers> peers;
  Range mine{0, 0};
  int64_t whole = 0;

  /// logits [R, mine] → [R, whole], for what needs all of them. Without autograd. Collective.
  at::Tensor gather(const at::Tensor& logits) const;
};

}  // namespace trainer::nn
