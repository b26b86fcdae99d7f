// Writing weights for others: a Hugging Face model folder, a PEFT adapter folder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// Collective. The whole tensor [shape] on every rank, put together from the ranks' pieces without changing a bit.
at::Tensor gather(const parallel::LogicalTensor& tensor, dist::Comm& comm);

/// A tensor of a file.
struct Exported {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  std::function<at::Tensor()> whole;  // Collective.
};

/// Collective. Writes `tensors` to the safetensors file `path`, one by one from rank 0: at most one of them exists
/// beside what training holds. Afterwards rank 0 opens the file again and compares every tensor's checksum.
/// Errors: MachineError.
void export_tensors(dist::Comm& comm, const std::filesystem::path& path, const std::vector<Exported>& tensors);

/// Tensors in memory by name.
using Gathered = std::map<std::string, at::Tensor>;
/// Collective. What an adapter file holds (engine/adapters/adapter_file.h); on rank 0 only.
Gathered gather_adapter(parallel::ParallelModel& model, const config::LoraConfig& options);
/// Writes them to the safetensors file `path`. Errors: MachineError.
void write_tensors(const std::filesystem::path& path, const Gathered& tensors);

/// Collective. export_tensors of what an adapter file holds.
void export_adapter(parallel::ParallelModel& model, const config::LoraConfig& options,
                    const std::filesystem::path& path);

/// Collective. Writes the parameters that `name` gives a name ("" leaves one out) to the safetensors file `path`,
/// by export_tensors.
void export_weights(parallel::ParallelModel& model, const std::filesystem::path& path,
                    const std::function<std::string(const parallel::LogicalTensor&)>& name);

}  // namespace trainer::checkpoint
