#include "data/readers/mnist.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "data/readers/idx.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;

constexpr const char* kImages = "images-idx3-ubyte";
constexpr const char* kLabels = "labels-idx1-ubyte";

struct Pair {
  std::string images, labels;
};

/// `name` with a dot before idx, as some distributions spell it.
std::string with_dot(std::string name) {
  return name.replace(name.rfind("-idx"), 1, ".");
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The file with one of the accepted names in `folder`; nothing when there is none.
std::optional<std::string> find_in(const fs::path& folder, const std::string& name) {
  for (const fs::path& place : {folder, folder / "MNIST" / "raw"}) {
    for (const std::string& file : {name, with_dot(name), name + ".gz", with_dot(name) + ".gz"}) {
      if (is_there(place / file)) return (place / file).string();
    }
  }
  return std::nullopt;
}

Pair find_pair(const fs::path& folder, MnistPart part) {
  const std::string prefix = part == MnistPart::kTrain ? "train-" : "t10k-";
  const std::string other = part == MnistPart::kTrain ? "t10k-" : "train-";
  auto images = find_in(folder, prefix + kImages), labels = find_in(folder, prefix + kLabels);
  if (images && labels) return {*images, *labels};
  std::string missing;
  for (const std::string& name : {prefix + kImages, prefix + kLabels}) {
    if (find_in(folder, name)) continue;
    missing += fmt::format("\n  {} (or {})", (folder / name).string(), with_dot(name));
  }
  throw InputError("MNIST: missing files:{}\nPut them there, uncompressed or as .gz.{}", missing,
                   find_in(folder, other + kImages) ? fmt::format(" {} exists; set the path to this file to use it.",
                                                                  *find_in(folder, other + kImages))
                                                    : "");
}

/// The label file next to an image file.
Pair beside(const std::string& images) {
  fs::path labels = images;
  std::string name = labels.filename().string();
  for (auto [from, to] : {std::pair("images", "labels"), std::pair("idx3", "idx1")}) {
    const size_t at = name.find(from);
    if (at == std::string::npos) {
      throw InputError("{}: the name of an MNIST image file must contain \"images\" and \"idx3\", like {}{}.", images,
                       "train-", kImages);
    }
    name.replace(at, std::string_view(from).size(), to);
  }
  labels.replace_filename(name);
  if (is_there(labels)) return {images, labels.string()};
  fs::path changed =
      labels.extension() == ".gz" ? fs::path(labels).replace_extension() : fs::path(labels.string() + ".gz");
  if (is_there(changed)) return {images, changed.string()};
  throw InputError("MNIST: missing file: {}\nThe labels belong next to the images, uncompressed or as .gz.",
                   labels.string());
}

std::string read_file_of(const std::string& path) {
  return read_idx(*open_bytes(path), path);
}

void check_kind(const IdxArray& array, size_t dimensions, const std::string& path, const char* what) {
  if (array.type == IdxType::kUint8 && array.sizes.size() == dimensions) return;
  throw InputError("{}: {} values of type 0x{:02x} in {} dimensions; {} must be bytes (0x08) in {}.", path,
                   fmt::join(array.sizes, " x "), static_cast<int>(array.type), array.sizes.size(), what, dimensions);
}

}  // namespace

Images read_mnist(const std::string& path, MnistPart part, int64_t begin, int64_t end) {
  const Pair files = is_there(path) ? beside(path) : find_pair(path, part);
  const std::string image_bytes = read_file_of(files.images), label_bytes = read_file_of(files.labels);
  const IdxArray pictures = parse_idx(image_bytes, files.images), labels = parse_idx(label_bytes, files.labels);
  check_kind(pictures, 3, files.images, "images");
  check_kind(labels, 1, files.labels, "labels");
  if (pictures.sizes[0] != labels.sizes[0]) {
    throw InputError("{} has {} images, but {} has {} labels.", files.images, pictures.sizes[0], files.labels,
                     labels.sizes[0]);
  }
  if (pictures.values.empty()) {
    throw InputError("{}: {} pixels: nothing to learn from.", files.images, fmt::join(pictures.sizes, " x "));
  }
  end = std::clamp<int64_t>(end, 0, pictures.sizes[0]);
  begin = std::clamp<int64_t>(begin, 0, end);
  Images images{.count = end - begin, .features = pictures.sizes[1] * pictures.sizes[2], .pixels = {}, .labels = {}};
  const auto* pixels = reinterpret_cast<const uint8_t*>(pictures.values.data());
  const auto* classes = reinterpret_cast<const uint8_t*>(labels.values.data());
  images.pixels.assign(pixels + begin * images.features, pixels + end * images.features);
  images.labels.assign(classes + begin, classes + end);
  return images;
}

}  // namespace trainer::data
