// Collects the problems of a configuration, so that the user sees all of them at once.
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
  std::string message;  // what is wrong, then what to do
  std::string rule;     // the id of the rule that was broken, or ""
};

/// "job.yaml:3:1: training.learning_rate must be a number; is 'fast'"
std::string to_string(const Problem& problem);

class Problems {
 public:
  void add(const Mark& mark, const std::string& path, const std::string& message, const std::string& rule = "");

  /// Something that a reader of a document found and that does not prevent a run.
  void warn(const Mark& mark, const std::string& message) { warnings_.push_back(to_string(mark) + ": " + message); }
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// Makes `about(path)` true: a problem may concern it, so it is not reported as missing as well.
  void mention(const std::string& path) { paths_.insert(path); }

  bool empty() const { return found_.empty(); }
  std::size_t size() const { return found_.size(); }
  /// True if a problem concerns `path` or an option inside it.
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

/// A ConfigError with its single problems, for callers that don't show them as lines.
class ConfigProblems : public ConfigError {
 public:
  explicit ConfigProblems(const Problems& problems) : ConfigError(problems.text()), problems_(problems.sorted()) {}
  const std::vector<Problem>& problems() const { return problems_; }

 private:
  std::vector<Problem> problems_;
};

/// The line of the file that `mark` points at, with a caret below the position; "" if it is not in a file.
std::string excerpt(const Mark& mark);

/// `text` made fit for one line of a message: at most `longest` bytes, with visible control characters.
std::string shown(const std::string& text, std::size_t longest = 80);

}  // namespace trainer::config
