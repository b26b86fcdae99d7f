// MNIST's images and labels.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace trainer::data {

/// Images and their class labels.
struct Images {
  int64_t count = 0;
  int64_t features = 0;         // pixels of an image: rows * columns
  std::vector<uint8_t> pixels;  // [count, features]
  std::vector<int32_t> labels;  // [count]
};

/// The two parts of MNIST, by file name: train-… and t10k-….
enum class MnistPart { kTrain, kTest };

/// Reads images [begin, end) with their labels. `path` is a folder with the two files of `part` (or with MNIST/raw,
/// where torchvision puts them), or the image file, with the label file next to it. Names end in -idx3-ubyte or
/// .idx3-ubyte, plain or .gz. `end` may be past the last image.
/// Errors: InputError for missing files, with their expected paths, and for invalid ones.
Images read_mnist(const std::string& path, MnistPart part, int64_t begin = 0,
                  int64_t end = std::numeric_limits<int64_t>::max());

}  // namespace trainer::data
