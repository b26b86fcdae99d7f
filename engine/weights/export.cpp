#include "engine/weights/export.h"

#include <map>
#include <optional>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/parallel/gather.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::checkpoint {
namespace {

uint32_t checksum(const at::Tensor& tensor) {
  return crc32c(tensor.const_data_ptr(), tensor.nbytes());
}

}  // namespace

void export_tensors(dist::Comm& comm, const std::filesystem::path& path, const std::vector<Exported>& tensors) {
  const at::NoGradGuard no_grad;
  std::map<std::string, const Exported*> ordered;  // by name, which is the file's order, as all are fp32
  std::vector<tensorfile::TensorSpec> specs;
  for (const Exported& tensor : tensors) {
    ordered[tensor.name] = &tensor;
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  std::optional<tensorfile::SafetensorsWriter> writer;
  std::map<std::string, uint32_t> written;
  std::string problem;
  const auto on_rank_0 = [&](const std::function<void()>& work) {
    if (comm.rank() != 0 || !problem.empty()) return;
    try {
      work();
    } catch (const Error& error) {
      problem = error.what();  // sent to the other ranks below; until then they need this rank in the collectives
    }
  };
  on_rank_0([&] { writer.emplace(path, specs); });
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor whole = tensor->whole().to(at::kCPU).contiguous();
    on_rank_0([&] {
      writer->write(name, whole);
      written[name] = checksum(whole);
    });
  }
  on_rank_0([&] {
    writer->finish();
    const tensorfile::SafetensorsFile file(path);
    for (const auto& [name, expected] : written)
      if (checksum(file.tensor(name)) != expected)
        throw MachineError("{}: {} does not read back as it was written. Check the disk.", path.string(), name);
  });
  for (const std::string& text : comm.gather_text(problem))
    if (!text.empty()) throw MachineError("{}", text);
}

void export_weights(parallel::ParallelModel& model, const std::filesystem::path& path,
                    const std::function<std::string(const parallel::LogicalTensor&)>& name) {
  const auto tensors = model.logical_tensors();
  std::vector<Exported> chosen;
  for (const auto& tensor : tensors)
    if (std::string given = name(tensor); !given.empty())
      chosen.push_back({std::move(given), tensor.shape, tensor.storage.packed ? at::kFloat : tensor.value.scalar_type(),
                        [&] { return parallel::gather(tensor, model.comm()); }});
  export_tensors(model.comm(), path, chosen);
}

namespace {

std::vector<Exported> adapter_tensors(parallel::ParallelModel& model, const std::vector<adapters::FileTensor>& file) {
  std::map<std::string, parallel::LogicalTensor> by_name;
  for (const auto& tensor : model.logical_tensors()) by_name[tensor.name] = tensor;
  std::vector<Exported> chosen;
  for (const adapters::FileTensor& entry : file)
    chosen.push_back({entry.name, entry.shape, at::kFloat, [entry, by_name, &model] {
                        std::vector<at::Tensor> parts;
                        for (const std::string& name : entry.parameters)
                          parts.push_back(parallel::gather(by_name.at(name), model.comm()));
                        return entry.make(parts);
                      }});
  return chosen;
}

}  // namespace

Gathered gather_adapter(parallel::ParallelModel& model, const std::vector<adapters::FileTensor>& file) {
  const at::NoGradGuard no_grad;
  Gathered gathered;
  for (const Exported& tensor : adapter_tensors(model, file)) {
    const at::Tensor whole = tensor.whole();
    if (model.comm().rank() == 0) gathered[tensor.name] = whole.clone();  // `whole` may be the weight itself
  }
  return gathered;
}

void write_tensors(const std::filesystem::path& path, const Gathered& tensors) {
  std::vector<tensorfile::TensorSpec> specs;
  for (const auto& [name, tensor] : tensors) specs.push_back({name, tensor.scalar_type(), tensor.sizes().vec()});
  tensorfile::SafetensorsWriter writer(path, specs);
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, tensors.at(info.name));
  writer.finish();
}

void export_adapter(parallel::ParallelModel& model, const std::vector<adapters::FileTensor>& file,
                    const std::filesystem::path& path) {
  export_tensors(model.comm(), path, adapter_tensors(model, file));
}

}  // namespace trainer::checkpoint
