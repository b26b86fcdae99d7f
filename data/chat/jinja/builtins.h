// Jinja's filters, tests, methods and functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/value.h"

namespace trainer::data::jinja {

/// The arguments of a call, each taken at most once.
class Arguments {
 public:
  Arguments() = default;
  void add(std::string name, Value value) {
    if (name.empty())
      by_place_.push_back(std::move(value));
    else
      by_name_.emplace_back(std::move(name), std::move(value));
  }

  /// The positional argument `place` (from 0), or the keyword argument `name`; nothing when it isn't given.
  std::optional<Value> take(size_t place, std::string_view name);
  /// The first positional argument; the others keep their positions. Nothing when there is none.
  std::optional<Value> take_first();
  std::string text(size_t place, std::string_view name, std::string fallback);
  int64_t whole(size_t place, std::string_view name, int64_t fallback);
  bool flag(size_t place, std::string_view name, bool fallback);
  /// All positional arguments from `place` on.
  std::vector<Value> placed_from(size_t place);
  /// All keyword arguments.
  std::vector<std::pair<std::string, Value>> named();
  size_t placed() const { return by_place_.size(); }
  /// Errors: BadOperation for an argument that was not taken.
  void finish() const;

 private:
  std::vector<Value> by_place_;
  std::vector<bool> taken_;
  std::vector<std::pair<std::string, Value>> by_name_;
};

bool is_filter(std::string_view name);
bool is_test(std::string_view name);
/// Null when there is no such function.
const char* function_name(std::string_view name);

/// `value | name(arguments)`. Errors: BadOperation.
Value apply_filter(std::string_view name, const Value& value, Arguments& arguments, Budget& budget);
/// `value is name(arguments)`. Errors: BadOperation.
bool apply_test(std::string_view name, const Value& value, Arguments& arguments, Budget& budget);
/// `object.name(arguments)`; nothing when it has no such method. Errors: BadOperation, also for methods that would
/// modify the object.
std::optional<Value> call_method(const Value& object, std::string_view name, Arguments& arguments, Budget& budget);
bool is_method(const Value& object, std::string_view name);
/// `name(arguments)`, except raise_exception. Errors: BadOperation.
Value call_function(std::string_view name, Arguments& arguments, Budget& budget);

}  // namespace trainer::data::jinja
