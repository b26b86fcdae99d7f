#include "engine/weights/write_weights.h"

#include "engine/base/files.h"

namespace trainer::checkpoint {

void write_weights(const std::filesystem::path& folder, const std::vector<tensorfile::TensorSpec>& specs,
                   const std::function<at::Tensor(const std::string& name)>& read) {
  const std::filesystem::path growing = folder / ".model.safetensors.partial";
  tensorfile::SafetensorsWriter writer(growing, specs);
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, read(info.name));
  writer.finish();
  publish_written(growing, folder / "model.safetensors");
}

}  // namespace trainer::checkpoint
