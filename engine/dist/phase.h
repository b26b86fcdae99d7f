#pragma once

#include <string_view>

namespace trainer::dist {

/// During its lifetime, labels the collectives of this thread with `what`, which reports show: "decoder.block.3". All
/// ranks of a group must use the same label, as it counts as part of the call. The text must outlive this object.
class Phase {
 public:
  explicit Phase(std::string_view what) : before_(now_) { now_ = what; }
  ~Phase() { now_ = before_; }
  Phase(const Phase&) = delete;
  Phase& operator=(const Phase&) = delete;

  static std::string_view now() { return now_; }

 private:
  static thread_local std::string_view now_;
  std::string_view before_;
};

}  // namespace trainer::dist
