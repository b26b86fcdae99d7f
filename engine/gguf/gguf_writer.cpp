#include "engine/gguf/gguf_writer.h"

#include <cstring>

#include "engine/base/errors.h"
#include "engine/base/round_up.h"

namespace trainer::gguf {
namespace {

constexpr uint32_t kVersion = 3;
constexpr int64_t kAlignment = 32;  // of each tensor's data

// The format's numbers for the types of values.
template <class T>
struct Code;
template <>
struct Code<uint8_t> : std::integral_constant<uint32_t, 0> {};
template <>
struct Code<uint32_t> : std::integral_constant<uint32_t, 4> {};
template <>
struct Code<int32_t> : std::integral_constant<uint32_t, 5> {};
template <>
struct Code<float> : std::integral_constant<uint32_t, 6> {};
template <>
struct Code<bool> : std::integral_constant<uint32_t, 7> {};
template <>
struct Code<std::string> : std::integral_constant<uint32_t, 8> {};
constexpr uint32_t kArray = 9;

/// The bytes of the file before the tensors' data.
class Preface {
 public:
  template <class T>
  void add(const T& number) {
    static_assert(std::is_arithmetic_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void add(const std::string& text) {
    add(uint64_t{text.size()});
    bytes_ += text;
  }
  template <class T>
  void add_typed(const T& value) {
    add(Code<T>::value);
    add(value);
  }
  template <class T>
  void add_typed(const std::vector<T>& values) {
    add(kArray);
    add(Code<T>::value);
    add(uint64_t{values.size()});
    for (const T& value : values) add(value);
  }
  void append(std::string_view bytes) { bytes_ += bytes; }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

int64_t padded_bytes(const TensorSpec& tensor) {
  return round_up(stored_bytes(tensor.type, tensor.shape), kAlignment);
}

std::string preface_of(const Metadata& metadata, const std::vector<TensorSpec>& tensors) {
  Preface preface;
  preface.append("GGUF");
  preface.add(kVersion);
  preface.add(uint64_t{tensors.size()});
  preface.add(uint64_t{metadata.size()});
  for (const auto& [key, value] : metadata) {
    preface.add(key);
    std::visit([&](const auto& typed) { preface.add_typed(typed); }, value);
  }
  int64_t offset = 0;
  for (const TensorSpec& tensor : tensors) {
    preface.add(tensor.name);
    preface.add(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;) preface.add(static_cast<uint64_t>(tensor.shape[i]));
    preface.add(static_cast<uint32_t>(tensor.type));
    preface.add(static_cast<uint64_t>(offset));
    offset += padded_bytes(tensor);
  }
  return preface.bytes();
}

}  // namespace

GgufWriter::GgufWriter(const std::filesystem::path& path, const Metadata& metadata, std::vector<TensorSpec> tensors)
    : sink_(path), tensors_(std::move(tensors)) {
  const std::string preface = preface_of(metadata, tensors_);
  int64_t bytes = round_up(static_cast<int64_t>(preface.size()), kAlignment);
  for (const TensorSpec& tensor : tensors_) bytes += padded_bytes(tensor);
  sink_.begin(bytes);
  put(preface);
  pad();
}

void GgufWriter::put(std::string_view bytes) {
  sink_.write(bytes);
  written_ += static_cast<int64_t>(bytes.size());
}

void GgufWriter::pad() {
  put(std::string(static_cast<size_t>(round_up(written_, kAlignment) - written_), '\0'));
}

void GgufWriter::write(const at::Tensor& values) {
  require(next() != nullptr, "all {} tensors are written", tensors_.size());
  const TensorSpec& tensor = *next();
  require(values.sizes().vec() == tensor.shape, "{} has another shape than declared", tensor.name);
  const at::Tensor bytes = encode(values, tensor.type, tensor.name);
  put({static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())});
  pad();
  ++next_;
}

void GgufWriter::finish() {
  require(next() == nullptr, "only {} of {} tensors were written", next_, tensors_.size());
  sink_.finish();
}

}  // namespace trainer::gguf
