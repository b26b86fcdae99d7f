// Collects the findings of rules.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/plan/reader.h"

namespace trainer::config {

class Judge {
 public:
  /// A missing key is reported for `file` if it is Accelerate's, for `job_file` if it is ours.
  Judge(Draft& draft, std::string file, std::string job_file, bool to_run)
      : draft_(draft),
        to_run_(to_run),
        file_(std::make_shared<const std::string>(std::move(file))),
        job_file_(std::make_shared<const std::string>(std::move(job_file))) {}

  std::string rule;  // the id of the current rule

  bool is_set(const std::string& path) const { return draft_.is_set(path); }

  /// True if `path` already has a problem, so that its value can't be checked.
  bool failed(const std::string& path) const { return draft_.problems.about(path); }

  /// The key and value that the user wrote to set `path`: those of the other program that were translated to it,
  /// otherwise `key` and `value`.
  std::pair<std::string, std::string> asked_by(const std::string& path, const std::string& key,
                                               const std::string& value) const {
    for (const Note& note : draft_.translated) {
      if (note.option == path) return {note.key, note.value};
    }
    return {key, value};
  }

  /// Adds a problem at the position of `path`, unless it already has one. The message states what is wrong, both
  /// values, and what to do.
  template <class... Args>
  void refuse(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    if (failed(path)) return;
    add(problem(path, fmt::format(format, std::forward<Args>(args)...)));
  }

  /// The same for requirements of a run: if no run is requested, they are reported only together with other problems.
  template <class... Args>
  void refuse_run(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    if (to_run_) return refuse(path, format, std::forward<Args>(args)...);
    of_runs_.push_back(problem(path, fmt::format(format, std::forward<Args>(args)...)));
  }

  /// Call it after all rules.
  void finish() {
    if (draft_.problems.empty()) return;
    for (const Problem& found : of_runs_)
      if (!failed(found.path)) add(found);
  }

  template <class... Args>
  void warn(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    const Mark mark = draft_.mark(path);
    draft_.warnings.push_back((mark.source ? to_string(mark) : *lacking(path)) + ": " +
                              fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Problem problem(const std::string& path, std::string message) const {
    Mark mark = draft_.mark(path);
    if (!mark.source) mark.source = lacking(path);
    return {mark, path, std::move(message), rule};
  }
  void add(const Problem& found) { draft_.problems.add(found.mark, found.path, found.message, found.rule); }

  const std::shared_ptr<const std::string>& lacking(const std::string& path) const {
    const Place top = find_option(draft_.config, path.substr(0, path.find('.')));
    return top.entry && top.entry->accelerate ? file_ : job_file_;
  }

  Draft& draft_;
  bool to_run_;
  std::vector<Problem> of_runs_;
  std::shared_ptr<const std::string> file_, job_file_;
};

}  // namespace trainer::config
