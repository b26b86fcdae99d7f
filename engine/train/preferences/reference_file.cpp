#include "engine/train/preferences/reference_file.h"

#include <fmt/format.h>

#include "data/cache/content_hash.h"
#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

constexpr const char* kChecksum = "crc32c";

std::string checksum(const StoredReferences& references) {
  uint32_t sum = 0;
  for (const auto& [name, stored] : references)
    sum = crc32c(stored.log_probs.const_data_ptr(), stored.log_probs.nbytes(), sum);
  return fmt::format("{:08x}", sum);
}

template <class T>
void append(std::string& bytes, const std::vector<T>& values) {
  bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

StoredReferences read_reference(const fs::path& output_dir) {
  const fs::path path = output_dir / kReferenceFile;
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return {};
  const tensorfile::SafetensorsFile file(path);
  StoredReferences references;
  for (const tensorfile::TensorInfo& info : file.tensors()) {
    const auto digest = file.metadata().find(info.name);
    const at::Tensor log_probs = file.tensor(info.name).clone();
    if (digest == file.metadata().end() || log_probs.scalar_type() != at::kDouble || log_probs.dim() != 2 ||
        log_probs.size(1) != 2)
      throw InputError("{}: '{}' isn't log-probabilities of pairs", path.string(), info.name);
    references[info.name] = {digest->second, log_probs};
  }
  const auto sum = file.metadata().find(kChecksum);
  if (sum == file.metadata().end() || sum->second != checksum(references))
    throw InputError(
        "{}: damaged: its checksum doesn't match.\n  Remove it: the reference's log-probabilities are computed again, "
        "which may differ in their last bits.",
        path.string());
  return references;
}

void write_reference(const fs::path& output_dir, const StoredReferences& references) {
  const fs::path path = output_dir / kReferenceFile, partial = fs::path(path).concat(".partial");
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) throw machine_error("create", path.parent_path(), error.value());
  std::vector<tensorfile::TensorSpec> specs;
  tensorfile::Metadata metadata{{kChecksum, checksum(references)}};
  for (const auto& [name, stored] : references) {
    specs.push_back({name, at::kDouble, stored.log_probs.sizes().vec()});
    metadata[name] = stored.digest;
  }
  tensorfile::SafetensorsWriter writer(partial, specs, metadata);
  for (const tensorfile::TensorInfo& info : writer.order()) writer.write(info.name, references.at(info.name).log_probs);
  writer.finish();
  publish_written(partial, path);
}

std::string digest_of(const data::Samples& pairs) {
  std::string digests;
  data::Sample sample;
  for (int64_t i = 0; i < pairs.size(); ++i) {
    pairs.read(i, sample);
    std::string bytes;
    append(bytes, sample.source);
    append(bytes, sample.labels);
    append(bytes, sample.parts);
    digests += data::text_hash(bytes);
  }
  return data::text_hash(digests);
}

}  // namespace trainer::train
