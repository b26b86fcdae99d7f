// The values of the template language: Python's, as far as templates need them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

namespace trainer::data::jinja {

class Value;
struct Macro;
struct Scope;

/// The value of a missing name or key; `what` names it, for messages.
struct Undefined {
  std::shared_ptr<const std::string> what;
};
struct None {};

/// A list or other sequence. A lazy one is the result of filters such as `map`: iteration consumes it.
struct Sequence {
  enum class Kind { kList, kTuple, kRange, kView, kLazy };
  Kind kind = Kind::kList;
  std::vector<Value> items;
  int depth = 1;
  int64_t size = 1;
};

/// A dict; its keys are in insertion order.
struct Dict {
  std::vector<std::pair<Value, Value>> items;
  int depth = 1;
  int64_t size = 1;
};

/// The only mutable value: `set ns.name = …`. The evaluator clears it at the end to break reference cycles.
struct Namespace {
  std::map<std::string, Value> fields;
};

/// The variable `loop` in a `for`.
struct Loop {
  std::shared_ptr<const Sequence> items;
  size_t index = 0;
};

/// A built-in function.
struct Function {
  const char* name;
};

using Text = std::shared_ptr<const std::string>;
using SequencePtr = std::shared_ptr<Sequence>;
using DictPtr = std::shared_ptr<Dict>;
using NamespacePtr = std::shared_ptr<Namespace>;
using LoopPtr = std::shared_ptr<const Loop>;
using MacroPtr = std::shared_ptr<const Macro>;
using Data = std::variant<Undefined, None, bool, int64_t, double, Text, SequencePtr, DictPtr, NamespacePtr, LoopPtr,
                          MacroPtr, Function>;

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None none) : data_(none) {}
  Value(bool truth) : data_(truth) {}
  Value(int64_t number) : data_(number) {}
  Value(double number) : data_(number) {}
  Value(std::string text) : data_(std::make_shared<const std::string>(std::move(text))) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Text text) : data_(std::move(text)) {}
  Value(SequencePtr items) : data_(std::move(items)) {}
  Value(DictPtr items) : data_(std::move(items)) {}
  Value(NamespacePtr fields) : data_(std::move(fields)) {}
  Value(LoopPtr loop) : data_(std::move(loop)) {}
  Value(MacroPtr macro) : data_(std::move(macro)) {}
  Value(Function function) : data_(function) {}

  static Value undefined(std::string what);
  /// The result of `| safe` or `| escape`, or a string derived from one: strings joined to it are escaped (markupsafe's
  /// Markup).
  static Value markup(std::string text);
  bool is_markup() const { return markup_; }

  template <class T>
  bool is() const {
    return std::holds_alternative<T>(data_);
  }
  template <class T>
  const T& as() const {
    return std::get<T>(data_);
  }
  const std::string& text() const { return *as<Text>(); }
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  bool is_whole() const { return is<bool>() || is<int64_t>(); }
  /// The value of a bool or an integer.
  int64_t whole() const { return is<bool>() ? int64_t{as<bool>()} : as<int64_t>(); }
  /// The value of any number.
  double number() const { return is<double>() ? as<double>() : static_cast<double>(whole()); }
  bool is_sequence(Sequence::Kind kind) const { return is<SequencePtr>() && as<SequencePtr>()->kind == kind; }

  /// The name of the type in Python.
  std::string_view type() const;

 private:
  Data data_;
  bool markup_ = false;
};

/// A list of `items`. Errors: BadOperation when it is nested too deep.
Value make_sequence(std::vector<Value> items, Sequence::Kind kind = Sequence::Kind::kList);
/// A dict; the last of equal keys wins. Errors: BadOperation, also for a value that can't be a key.
Value make_dict(std::vector<std::pair<Value, Value>> items);
/// The nesting depth of lists and dicts in `value`.
int depth_of(const Value& value);
/// The cost of visiting the whole value: its items, recursively, and each 16 bytes of strings.
int64_t size_of(const Value& value);
/// The value of `key`; null when there is none.
const Value* find(const Dict& dict, const Value& key);
const Value* find(const Dict& dict, std::string_view key);

bool truth(const Value& value);
bool equal(const Value& left, const Value& right);
/// Negative, 0 or positive. Errors: BadOperation for values that can't be ordered.
int compare(const Value& left, const Value& right);

Value from_json(const nlohmann::json& json);
Value from_json(const nlohmann::ordered_json& json);

}  // namespace trainer::data::jinja
