#pragma once

#include <ATen/core/Tensor.h>

namespace trainer::parallel {

// Note [Freeing under live views]
// The views of a unit and the autograd graph keep a tensor's storage alive. Its memory is freed and reallocated inside
// that storage, so that all of them see the values again after the next gather.

void free_storage(const at::Tensor& tensor);
/// Allocates memory without initializing values.
void allocate_storage(const at::Tensor& tensor);
/// Moves the memory of `tensor`, which must have no other users, to a storage without any.
void move_storage(const at::Tensor& tensor, c10::StorageImpl& to);

}  // namespace trainer::parallel
