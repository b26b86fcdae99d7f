// What is wrong with a template, or with what it does.
#pragma once

#include <stdexcept>
#include <string>

#include <fmt/format.h>

namespace trainer::data::jinja {

/// Whoever has the template says where it is from.
class Failure : public std::runtime_error {
 public:
  template <class... Args>
  Failure(int line, fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)), line_(line) {}

  /// Of the template, from 1; 0 when the whole is meant.
  int line() const { return line_; }

 private:
  int line_;
};

/// The template itself called raise_exception: it does not want these messages.
class Raised : public Failure {
 public:
  using Failure::Failure;
};

/// An operation can't be done; the evaluator, which knows the line, makes a Failure of it.
class BadOperation : public std::runtime_error {
 public:
  template <class... Args>
  explicit BadOperation(fmt::format_string<Args...> format, Args&&... args)
      : std::runtime_error(fmt::format(format, std::forward<Args>(args)...)) {}
};

}  // namespace trainer::data::jinja
