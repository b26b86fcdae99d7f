#include "engine/tracking/metrics_tail.h"

#include <sys/stat.h>

#include <fstream>

#include "engine/base/bounded_json.h"

namespace trainer::tracking {
namespace {

/// The line's numbers; a negative step for a line of another kind, such as one about a slow rank.
Values values_of(const std::string& line) {
  Values values{-1, false, {}};
  const auto json = bounded_json_or_none(line);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_unsigned()) return values;
  values.is_evaluation = !json.contains("order_digest");
  for (const auto& [name, value] : json.items()) {
    if (name != "step" && value.is_number()) values.numbers[name] = value.get<double>();
    if (values.is_evaluation && name != "step" && name != "epoch" && !name.starts_with("eval_")) return values;
  }
  if (json.contains("learning_rate") || values.is_evaluation) values.step = json["step"].get<int64_t>();
  return values;
}

}  // namespace

MetricsTail::MetricsTail(std::filesystem::path file, bool is_new, Sent sent) : file_(std::move(file)), sent_(sent) {
  struct stat about {};
  if (is_new && stat(file_.c_str(), &about) == 0) ignored_ = about.st_ino;
}

/// Whether there is something to read after offset_.
bool MetricsTail::reopen() {
  struct stat about {};
  if (stat(file_.c_str(), &about) != 0 || about.st_ino == ignored_) return false;
  ignored_ = 0;
  if (about.st_ino != inode_ || about.st_size < offset_) offset_ = 0;
  inode_ = about.st_ino;
  return about.st_size > offset_;
}

std::vector<Values> MetricsTail::next(size_t most) {
  std::vector<Values> found;
  if (!reopen()) return found;
  std::ifstream stream(file_, std::ios::binary);
  stream.seekg(offset_);
  for (std::string line; found.size() < most && std::getline(stream, line) && !stream.eof();) {
    offset_ += static_cast<int64_t>(line.size()) + 1;
    Values values = values_of(line);
    int64_t& last = values.is_evaluation ? sent_.evaluation : sent_.step;
    if (values.step <= last) continue;
    last = values.step;
    found.push_back(std::move(values));
  }
  return found;
}

}  // namespace trainer::tracking
