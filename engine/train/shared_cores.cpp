#include "engine/train/shared_cores.h"

#include <filesystem>
#include <fstream>
#include <system_error>

namespace trainer::train {

namespace {

double seconds_waited(const std::filesystem::path& thread) {
  constexpr double kNanosecond = 1e-9;
  std::ifstream file(thread / "schedstat");
  double ran = 0, waited = 0;
  return file >> ran >> waited ? waited * kNanosecond : 0;
}

}  // namespace

double seconds_waited_for_core() {
  return seconds_waited("/proc/thread-self");
}

double seconds_all_waited_for_core() {
  double seconds = 0;
  std::error_code none;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task", none))
    seconds += seconds_waited(thread.path());
  return seconds;
}

double SharedCores::see(double seconds, double waited) {
  window_.push_back({seconds, waited});
  if (window_.size() > kWindow) window_.pop_front();
  if (reported_ || window_.size() < kWindow) return 0;
  double all = 0, lost = 0;
  size_t slowed = 0;
  for (const Update& update : window_) {
    all += update.seconds;
    lost += update.waited;
    slowed += update.waited > 0 && update.waited >= kNoticed * update.seconds ? 1 : 0;
  }
  reported_ = 2 * slowed >= kWindow;
  return reported_ ? lost / all : 0;
}

}  // namespace trainer::train
