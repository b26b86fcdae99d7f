#include "engine/tensorfile/safetensors_writer.h"

#include <bit>
#include <set>

#include "engine/base/errors.h"

namespace trainer::tensorfile {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

std::vector<TensorInfo> planned(const std::vector<TensorSpec>& specs) {
  std::vector<TensorInfo> tensors;
  std::set<std::string> names;
  for (const TensorSpec& spec : specs) {
    const Dtype* dtype = find_dtype(spec.dtype);
    require(dtype != nullptr, "safetensors files have no dtype for tensor {}", shown_name(spec.name));
    require(names.insert(spec.name).second, "tensor {} is declared twice", shown_name(spec.name));
    require(spec.name != "__metadata__", "a tensor must not be named __metadata__");
    tensors.push_back({spec.name, dtype, spec.shape});
  }
  lay_out(tensors);
  return tensors;
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::filesystem::path& path, const std::vector<TensorSpec>& tensors,
                                     Metadata metadata, Tap tap)
    : SafetensorsWriter(std::make_unique<FileSink>(path), tensors, std::move(metadata), std::move(tap)) {}

SafetensorsWriter::SafetensorsWriter(std::unique_ptr<ByteSink> sink, const std::vector<TensorSpec>& tensors,
                                     Metadata metadata, Tap tap)
    : sink_(std::move(sink)), header_{std::move(metadata), planned(tensors)}, tap_(std::move(tap)) {
  header_.metadata["format"] = "pt";
  const std::string json = format_header(header_);
  require(json.size() <= kMaxHeaderBytes, "the header of {} would have {} bytes", sink_->name(), json.size());
  const uint64_t length = json.size();
  sink_->begin(bytes());
  put({reinterpret_cast<const char*>(&length), sizeof(length)});
  put(json);
}

int64_t SafetensorsWriter::bytes() const {
  const int64_t data = order().empty() ? 0 : order().back().offset + order().back().bytes;
  return static_cast<int64_t>(sizeof(uint64_t) + format_header(header_).size()) + data;
}

void SafetensorsWriter::put(std::string_view bytes) {
  sink_->write(bytes);
  if (tap_) tap_(bytes);
}

void SafetensorsWriter::write(const std::string& name, const at::Tensor& tensor) {
  require(next_ < order().size(), "{} cannot be written: all {} tensors already are", shown_name(name), order().size());
  const TensorInfo& info = order()[next_];
  require(name == info.name, "{} cannot be written yet: {} comes next", shown_name(name), shown_name(info.name));
  require(tensor.sizes().vec() == info.shape && tensor.scalar_type() == info.dtype->type,
          "{} was declared as {} {}, but is {} {}", shown_name(name), info.dtype->name, shape_text(info.shape),
          c10::toString(tensor.scalar_type()), shape_text(tensor.sizes().vec()));
  const at::Tensor values = tensor.cpu().contiguous();
  if (info.bytes > 0) put({static_cast<const char*>(values.const_data_ptr()), static_cast<size_t>(info.bytes)});
  ++next_;
}

void SafetensorsWriter::finish() {
  require(next_ == order().size(), "only {} of {} tensors of {} were written", next_, order().size(), sink_->name());
  sink_->finish();
}

}  // namespace trainer::tensorfile
