// Typed access to a JSON file provided by the user, with a list of its problems.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainer::data {

/// The problems of a JSON file, each with the path of the value.
class JsonProblems {
 public:
  void add(const std::string& path, const std::string& problem);
  bool empty() const { return count_ == 0; }
  /// Errors: InputError that names `file` and the first problems, if there are any.
  void throw_if_any(const std::string& file) const;

 private:
  static constexpr size_t kShown = 4;
  std::vector<std::string> lines_;
  size_t count_ = 0;
};

/// A view of one value. A getter that finds another type records a problem and returns a placeholder of its type.
class JsonView {
 public:
  JsonView(const nlohmann::json& value, JsonProblems& problems) : value_(&value), problems_(&problems) {}

  /// The member `key`; a null value when it is missing.
  JsonView at(std::string_view key) const;
  /// The members of a list; none of a null value.
  std::vector<JsonView> items() const;
  bool is_null() const { return value_->is_null(); }
  bool is_text() const { return value_->is_string(); }
  bool is_list() const { return value_->is_array(); }
  bool is_object() const { return value_->is_object(); }

  // With a fallback for a missing or null value; without one, the value is required.
  std::string text(std::optional<std::string> fallback = {}) const;
  bool flag(std::optional<bool> fallback = {}) const;
  int64_t integer(int64_t least, int64_t most, std::optional<int64_t> fallback = {}) const;
  double number() const;
  /// A string of one character.
  char32_t character() const;

  /// The choice named by the string; nothing, recorded as a problem, when it isn't in `choices`.
  template <class T>
  std::optional<T> choice(std::initializer_list<std::pair<std::string_view, T>> choices) const {
    std::string given = text();
    std::string names;
    for (const auto& [name, value] : choices) {
      if (name == given) return value;
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    if (is_text()) problem("\"" + given + "\" is not supported; supported are " + names);
    return std::nullopt;
  }

  void problem(const std::string& what) const { problems_->add(path_, what); }
  /// Whether the file has no problems so far.
  bool is_clean() const { return problems_->empty(); }
  const nlohmann::json& value() const { return *value_; }
  const std::string& path() const { return path_; }

 private:
  JsonView(const nlohmann::json& value, JsonProblems& problems, std::string path)
      : value_(&value), problems_(&problems), path_(std::move(path)) {}
  void expected(std::string_view what) const;

  const nlohmann::json* value_;
  JsonProblems* problems_;
  std::string path_;
};

}  // namespace trainer::data
