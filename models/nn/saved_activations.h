#pragma once

namespace trainer::nn {

// Note [Saved activations]
// Most of the memory of a pass holds what autograd saves until backward. It may wait there in fewer bits: then the
// forward pass, and with it the loss, stays as it is, and the gradients are off by the rounding of what is saved.
// libtorch asks its engine how each tensor is saved, so no layer needs to know. Not packed: weights, their casts and
// transposes; what layers compute for backward only, such as masks and sums; small tensors; and what is as narrow
// already. What several layers save, as q, k and v do their input, is packed once.

/// How activations wait for backward.
enum class SavedAs { kAsComputed, kBFloat16, kInt8 };

/// From now on, for all forward passes of this process, whose ranks, if they are threads, are those of one run.
void save_activations_as(SavedAs how);

}  // namespace trainer::nn
