#pragma once

#include <ATen/core/Tensor.h>

#include "models/nn/row_losses.h"
#include "models/nn/rows_to_loss.h"
#include "models/nn/tensor_group.h"

namespace trainer::nn {

/// Sum over rows of (1 - e) * -log p[label] + e * mean(-log p), p = softmax(logits) and e = `label_smoothing`, in fp32;
/// rows with label -100 are ignored. logits [U, V] any float dtype, labels [U] int64, which may be on the CPU.
/// Saves the logits; the gradient, in their dtype, is the only other tensor of their size. Throws InternalError for a
/// label on the host that is beyond V. `shared`: the logits cover its slice of the vocabulary, and V is the whole
/// vocabulary. The call is then a collective of the tensor-parallel ranks and returns the same sum on all; it sends a
/// few values per row. `convert`: what the loss is, if not the sum.
at::Tensor cross_entropy_sum(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing = 0,
                             const PartitionedVocabulary* shared = nullptr, const RowsToLoss& convert = {});

/// Errors: InternalError for a label beyond `classes`. Labels [U] on the host.
void check_labels(const at::Tensor& labels, int64_t classes);

/// The targets of logits [U, width] on `device`, of the slice `shared` of the vocabulary. Throws as above.
Targets targets_of(const at::Tensor& labels, at::Device device, int64_t width, double label_smoothing,
                   const PartitionedVocabulary* shared);

}  // namespace trainer::nn
