// Reads a GGUF file, for comparison.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace trainer::testing {

/// The content of a GGUF file: values with their types as text, tensors with their types, sizes and bytes.
struct GgufFile {
  struct Tensor {
    uint32_t type = 0;
    std::vector<uint64_t> sizes;  // the fastest first
    std::string bytes;
    bool operator==(const Tensor&) const = default;
  };
  std::map<std::string, std::string> values;
  std::map<std::string, Tensor> tensors;

  explicit GgufFile(const std::string& content) : content_(content) {
    if (take(4) != "GGUF" || number<uint32_t>() != 3) throw std::runtime_error("not GGUF 3");
    const auto tensor_count = number<uint64_t>(), value_count = number<uint64_t>();
    for (uint64_t i = 0; i < value_count; ++i) {
      const std::string key = text();
      values[key] = value(number<uint32_t>());
    }
    std::map<std::string, uint64_t> offsets;
    for (uint64_t i = 0; i < tensor_count; ++i) {
      const std::string name = text();
      Tensor& tensor = tensors[name];
      tensor.sizes.resize(number<uint32_t>());
      for (uint64_t& size : tensor.sizes) size = number<uint64_t>();
      tensor.type = number<uint32_t>();
      offsets[name] = number<uint64_t>();
    }
    const uint64_t data = (at_ + 31) / 32 * 32;
    for (auto& [name, tensor] : tensors) tensor.bytes = content_.substr(data + offsets.at(name), bytes_of(tensor));
  }

 private:
  std::string take(uint64_t count) {
    if (count > content_.size() - at_) throw std::runtime_error("the file is too short");
    at_ += count;
    return content_.substr(at_ - count, count);
  }
  template <class T>
  T number() {
    T read;
    std::memcpy(&read, take(sizeof(T)).data(), sizeof(T));
    return read;
  }
  std::string text() { return take(number<uint64_t>()); }

  /// "u32 7", "[3 str a b c]"
  std::string value(uint32_t type) {
    switch (type) {
      case 0:
        return fmt::format("u8 {}", number<uint8_t>());
      case 4:
        return fmt::format("u32 {}", number<uint32_t>());
      case 5:
        return fmt::format("i32 {}", number<int32_t>());
      case 6:
        return fmt::format("f32 {}", number<float>());
      case 7:
        return number<uint8_t>() != 0 ? "true" : "false";
      case 8:
        return "str " + text();
      case 9: {
        const auto element = number<uint32_t>();
        const auto count = number<uint64_t>();
        std::string all = fmt::format("[{}", count);
        for (uint64_t i = 0; i < count; ++i) all += " " + value(element);
        return all + "]";
      }
      default:
        throw std::runtime_error(fmt::format("a value of type {}", type));
    }
  }

  static uint64_t bytes_of(const Tensor& tensor) {
    uint64_t count = 1;
    for (const uint64_t size : tensor.sizes) count *= size;
    return tensor.type == 0 ? 4 * count : tensor.type == 8 ? count / 32 * 34 : 2 * count;
  }

  std::string content_;
  uint64_t at_ = 0;
};

}  // namespace trainer::testing
