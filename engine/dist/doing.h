#pragma once

#include <string_view>

namespace trainer::dist {

/// While it lives, the collectives of this thread are for `what`, as reports name it: "decoder.block.3". To be said
/// alike by all ranks of a group: it counts as part of the call. The text must outlive this.
class Doing {
 public:
  explicit Doing(std::string_view what) : before_(now_) { now_ = what; }
  ~Doing() { now_ = before_; }
  Doing(const Doing&) = delete;
  Doing& operator=(const Doing&) = delete;

  static std::string_view now() { return now_; }

 private:
  static thread_local std::string_view now_;
  std::string_view before_;
};

}  // namespace trainer::dist
