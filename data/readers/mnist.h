// MNIST's images and labels.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trainer::data {

/// Pictures and the class of each.
struct Images {
  int64_t count = 0;
  int64_t features = 0;         // pixels of a picture: rows * columns
  std::vector<uint8_t> pixels;  // [count, features]
  std::vector<int32_t> labels;  // [count]
};

/// The two parts of MNIST, by their files' names: train-… and t10k-….
enum class MnistPart { kTrain, kTest };

/// Reads pictures [begin, end) with their labels. `path` is a folder with the two files of `part` (or with MNIST/raw,
/// where torchvision puts them), or the images' file, beside which the labels' is. Names end in -idx3-ubyte or
/// .idx3-ubyte, plain or .gz. `end` may be beyond the last picture.
/// Errors: InputError for missing files, with where they belong, and for wrong ones.
Images read_mnist(const std::string& path, MnistPart part, int64_t begin = 0,
                  int64_t end = std::numeric_limits<int64_t>::max());

}  // namespace trainer::data
