#include "engine/base/gpu_library.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include "engine/base/beside_program.h"

namespace trainer {
namespace fs = std::filesystem;

std::string gpu_library_path() {
  if (const char* const other = std::getenv(kAcceleratorVariable)) return other;
  return beside_program("libtrainer_cuda.so").string();
}

int64_t installed_gpus() {
  int64_t count = 0;
  std::error_code none;
  for (const auto& device : fs::directory_iterator("/dev", none)) {
    const std::string name = device.path().filename();
    const std::string number = name.starts_with("nvidia") ? name.substr(6) : "";  // a container may have only nvidia2
    count += !number.empty() && std::all_of(number.begin(), number.end(), [](unsigned char c) { return isdigit(c); });
  }
  return count;
}

int64_t visible_gpus() {
  const int64_t count = installed_gpus();
  const char* const given = std::getenv("CUDA_VISIBLE_DEVICES");
  if (given == nullptr) return count;
  const std::string_view visible = given;
  if (visible.empty() || visible == "-1") return 0;
  return std::min(count, static_cast<int64_t>(std::count(visible.begin(), visible.end(), ',')) + 1);
}

std::string why_no_gpus(int64_t ranks) {
  if (!fs::exists(gpu_library_path())) return "this build has no GPU support";
  if (std::getenv(kAcceleratorVariable) != nullptr) return "";  // the ranks ask that library
  const int64_t gpus = visible_gpus();
  if (gpus == 0) return "this machine shows no NVIDIA GPU (is its driver installed, and CUDA_VISIBLE_DEVICES right?)";
  if (gpus < ranks) return fmt::format("{} ranks per machine need a GPU each, but this machine has {}", ranks, gpus);
  return "";
}

}  // namespace trainer
