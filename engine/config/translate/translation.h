// Shared by the dialects: sets our options from other programs' keys.
#pragma once

#include <filesystem>
#include <string>

#include "engine/config/plan/reader.h"

namespace trainer::config {

/// Another program's key as it was written.
struct GivenKey {
  std::string key;  // "deepspeed_config.zero_stage"
  Node value;
  Mark mark;  // no source: its default
};

/// The folder that relative paths at `mark` are resolved against.
std::filesystem::path folder_of(const Mark& mark);

class Translation {
 public:
  explicit Translation(Draft& draft) : draft_(draft) {}

  /// Sets option `to` to `value` with the origin of `from`. The user's own value of `to` is kept if it comes from a
  /// later layer or `from` is a default; a different value from the same layer is a problem.
  void set(const GivenKey& from, const std::string& to, const Node& value);

  /// Sets option `to` to true if the foreign key at `path` is true.
  void set_if_true(const std::string& path, const std::string& to);

  /// `from` requests something that this version doesn't support. `reason` states why, and what to do instead.
  void refuse(const GivenKey& from, const std::string& reason);

  /// `from` is accepted and has no effect.
  void no_effect(const GivenKey& from, const std::string& reason);

  /// The foreign key at `path` as it was written; without a mark if it wasn't.
  GivenKey foreign(const std::string& path) const;
  /// The option at `path` with its value.
  GivenKey option(const std::string& path) const;

 private:
  Draft& draft_;
};

}  // namespace trainer::config
