// Errors of templates: syntax and evaluation.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace trainer::data::jinja {

/// The caller adds the template's name.
class Failure : public std::runtime_error {
 public:
  template <class... Args>
  Failure(int line, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), line_(line) {}

  /// The line of the template, from 1; 0 for the whole template.
  int line() const { return line_; }

 private:
  int line_;
};

/// The template called raise_exception: it rejects these messages.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

/// An invalid operation; the evaluator, which knows the line, turns it into a Failure.
class BadOperation : public std::runtime_error {
 public:
  template <class... Args>
  explicit BadOperation(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace trainer::data::jinja
