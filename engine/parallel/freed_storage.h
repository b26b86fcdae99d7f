#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::parallel {

// Note [Freeing under live views]
// The views of a unit and the graph of autograd keep the storage of a tensor alive. Its memory goes and comes back
// inside that storage, so all of them see the values again once they were gathered anew.

void free_storage(const at::Tensor& tensor);
/// Memory without values.
void allocate_storage(const at::Tensor& tensor);
/// Gives the memory of `tensor`, which nobody else needs, to a storage without any.
void move_storage(const at::Tensor& tensor, c10::StorageImpl& to);

}  // namespace trainer::parallel
