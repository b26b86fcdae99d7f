// Writing weights for others: a Hugging Face model folder, a PEFT adapter folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// Collective. The whole tensor [shape] on every rank, put together from the ranks' pieces without changing a bit.
at::Tensor gather(const parallel::LogicalTensor& tensor, dist::Comm& comm);

/// Collective. Writes the parameters that `name` gives a name ("" leaves one out) to the safetensors file `path`,
/// tensor by tensor from rank 0: at most one whole tensor exists beside what training holds. Afterwards rank 0 opens
/// the file again and compares every tensor's checksum. Errors: MachineError.
void export_weights(parallel::ParallelModel& model, const std::filesystem::path& path,
                    const std::function<std::string(const parallel::LogicalTensor&)>& name);

}  // namespace trainer::checkpoint
