// What is wrong with a configuration, collected: the user sees all of it in one go.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/config/document.h"

namespace trainer::config {

class Problems {
 public:
  /// `path` is the option it is about ("training.learning_rate"), so that rules can tell that it failed already.
  void add(const Mark& mark, const std::string& path, const std::string& message);

  bool empty() const { return found_.empty(); }
  /// True when something was said about `path` or an option inside it.
  bool about(const std::string& path) const;

  /// One line each (the first 50), in the order of the files: "job.yaml:3:1: training.learning_rate must be a number;
  /// is 'fast'".
  std::string text() const;
  /// Throws ConfigError with `text()` if there are any.
  void throw_if_any() const;

 private:
  struct Problem {
    Mark mark;
    std::string message;
  };
  std::vector<Problem> found_;
  std::set<std::string> paths_;
};

/// `text` fit for one line of a message: at most `longest` bytes, control characters made visible.
std::string shown(const std::string& text, std::size_t longest = 80);

}  // namespace trainer::config
