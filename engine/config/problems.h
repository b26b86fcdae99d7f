// What is wrong with a configuration, collected: the user sees all of it in one go.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/config/document/document.h"

namespace trainer::config {

struct Problem {
  Mark mark;
  std::string path;     // the option it is about ("training.learning_rate"), or ""
  std::string message;  // what is wrong and, after it, what to do
  std::string rule;     // the id of the rule that was broken, or ""
};

/// "job.yaml:3:1: training.learning_rate must be a number; is 'fast'"
std::string to_string(const Problem& problem);

class Problems {
 public:
  void add(const Mark& mark, const std::string& path, const std::string& message, const std::string& rule = "");

  /// What readers of documents find that a run can live with.
  void warn(const Mark& mark, const std::string& message) { warnings_.push_back(to_string(mark) + ": " + message); }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Makes `about(path)` true: what was said may be about it, so that nobody complains that it is missing.
  void mention(const std::string& path) { paths_.insert(path); }

  bool empty() const { return found_.empty(); }
  std::size_t size() const { return found_.size(); }
  /// True when something was said about `path` or an option inside it.
  bool about(const std::string& path) const;

  /// In the order of the files.
  std::vector<Problem> sorted() const;
  /// One line each (the first 50).
  std::string text() const;
  /// Throws ConfigProblems if there are any.
  void throw_if_any() const;

 private:
  std::vector<Problem> found_;
  std::set<std::string> paths_;
  std::vector<std::string> warnings_;
};

/// A ConfigError that knows its parts, for those who show them otherwise than as lines.
class ConfigProblems : public ConfigError {
 public:
  explicit ConfigProblems(const Problems& problems) : ConfigError(problems.text()), problems_(problems.sorted()) {}
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The line of the file that `mark` points at, with a caret below the place; "" when it is in no file.
std::string excerpt(const Mark& mark);

/// `text` fit for one line of a message: at most `longest` bytes, control characters made visible.
std::string shown(const std::string& text, std::size_t longest = 80);

}  // namespace trainer::config
