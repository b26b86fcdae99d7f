#include "engine/train/profile/known_peak.h"

#include <filesystem>

#include <ATen/Parallel.h>
#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/host_name.h"
#include "engine/base/user_cache.h"
#include "engine/dist/accelerator.h"
#include "engine/train/parallelism.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kMostBytes = 1 << 16;

/// "" without a home folder.
fs::path cache_file() {
  const fs::path cache = user_cache();
  return cache.empty() ? cache : cache / "matmul_peak.json";
}

nlohmann::json read_peaks(const fs::path& file) {
  std::error_code error;
  if (file.empty() || !fs::is_regular_file(file, error)) return nlohmann::json::object();
  try {
    nlohmann::json peaks = bounded_json_or_none(read_file(file, kMostBytes));
    if (peaks.is_object()) return peaks;
  } catch (const Error&) {  // too large, or not readable
  }
  return nlohmann::json::object();
}

}  // namespace

std::string peak_key(at::ScalarType dtype, at::Device device) {
  const std::string name = device.is_cpu() ? fmt::format("CPU, {} threads", at::get_num_threads())
                                           : dist::find_accelerator()->facts(device.index()).name;
  return fmt::format("{}: {}, {}", host_name(), name, name_of(dtype));
}

std::optional<double> known_peak(const std::string& key) {
  const nlohmann::json peaks = read_peaks(cache_file());
  const auto found = peaks.find(key);
  if (found == peaks.end() || !found->is_number() || found->get<double>() <= 0) return std::nullopt;
  return found->get<double>();
}

void remember_peak(const std::string& key, double flops) {
  const fs::path file = cache_file();
  if (file.empty()) return;
  try {
    nlohmann::json peaks = read_peaks(file);
    peaks[key] = flops;
    std::error_code error;
    fs::create_directories(file.parent_path(), error);
    publish_file(file, peaks.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } catch (const Error&) {
  }
}

}  // namespace trainer::train
