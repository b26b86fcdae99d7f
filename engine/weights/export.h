// Writes weights for other programs: a Hugging Face model folder, a PEFT adapter folder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/adapters/adapter_file.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::checkpoint {

/// A tensor of a file.
struct Exported {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType dtype = at::kFloat;
  std::function<at::Tensor()> whole;  // Collective.
};

/// Collective. Writes `tensors` to the safetensors file `path` on rank 0, one by one: at most one gathered tensor
/// exists at a time. Afterwards rank 0 reads the file back and compares every tensor's checksum.
/// Errors: MachineError.
void export_tensors(dist::Comm& comm, const std::filesystem::path& path, const std::vector<Exported>& tensors);

/// Tensors in memory by name.
using Gathered = std::map<std::string, at::Tensor>;
/// Collective. The tensors of an adapter file (adapters::adapter_file); on rank 0 only.
Gathered gather_adapter(parallel::ParallelModel& model, const std::vector<adapters::FileTensor>& file);
/// Writes them to the safetensors file `path`. Errors: MachineError.
void write_tensors(const std::filesystem::path& path, const Gathered& tensors);

/// Collective. export_tensors for the tensors of an adapter file.
void export_adapter(parallel::ParallelModel& model, const std::vector<adapters::FileTensor>& file,
                    const std::filesystem::path& path);

/// Collective. export_tensors for the parameters that `name` gives a name; "" leaves one out.
void export_weights(parallel::ParallelModel& model, const std::filesystem::path& path,
                    const std::function<std::string(const parallel::LogicalTensor&)>& name);

}  // namespace trainer::checkpoint
