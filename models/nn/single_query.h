// Attention of samples with one query each, in a step of decoding.
#pragma once

#include "models/nn/attention.h"

namespace trainer::nn {

// Note [Single queries]
// A step of decoding reads all keys and values of its samples once, and takes as long as that. One head's lie apart,
// 256 bytes in each row of 3 KiB with 12 heads of 64, and come from memory at half its speed. So the heads of a row are
// computed together, in the order of memory.
//
// Measured on two cores of an AMD EPYC (Zen 4), 12 heads of 64, 8 samples of 12 layers, both products by head and so:
// 40 keys 0.69 and 0.33 ms, 100 keys 3.3 and 1.7 ms, 400 keys 15.5 and 7.0 ms.

/// Whether packed_attention() computes a sample so: then its results depend on no other sample.
inline bool is_single_query(const Layout& queries, int64_t sample, const AttentionOptions& options) {
  return options.decoding && queries.spans[sample].length == 1;
}

/// packed_attention() of these samples, into their rows of `out`, which is like q; all contiguous, and `bias` [H,
/// distances].
void attend_single_queries(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& bias,
                           const Layout& queries, const Layout& keys, const AttentionOptions& options,
                           const at::Tensor& out);

}  // namespace trainer::nn
