#include "data/chat/jinja/operations.h"

#include <algorithm>
#include <cmath>

#include "data/chat/jinja/text.h"

namespace trainer::data::jinja {
namespace {

using SequenceKind = Sequence::Kind;

[[noreturn]] void refuse(std::string_view sign, const Value& left, const Value& right) {
  throw BadOperation("`{}` of a {} and a {}", sign, left.type(), right.type());
}

void checked(bool overflow) {
  if (overflow) throw BadOperation("a number does not fit in 64 bits");
}

int64_t floor_divided(int64_t left, int64_t right) {
  if (left == INT64_MIN && right == -1) checked(true);
  const int64_t result = left / right;
  return result - ((left % right != 0 && (left < 0) != (right < 0)) ? 1 : 0);
}

int64_t whole_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  if (base == 0 || base == 1 || exponent == 0) return exponent == 0 ? 1 : base;
  if (base == -1) return exponent % 2 == 0 ? 1 : -1;
  for (; exponent > 0; --exponent) checked(__builtin_mul_overflow(result, base, &result));
  return result;
}

Value whole_binary(std::string_view sign, int64_t a, int64_t b) {
  int64_t result = 0;
  if (sign == "+") return checked(__builtin_add_overflow(a, b, &result)), result;
  if (sign == "-") return checked(__builtin_sub_overflow(a, b, &result)), result;
  if (sign == "*") return checked(__builtin_mul_overflow(a, b, &result)), result;
  if (sign == "**") {
    if (b >= 0) return whole_power(a, b);
    if (a == 0) throw BadOperation("0 to the power of {}", b);
    return std::pow(static_cast<double>(a), static_cast<double>(b));
  }
  if (b == 0) throw BadOperation("division by zero");
  if (sign == "//") return floor_divided(a, b);
  if (sign == "%") return b == -1 ? int64_t{0} : a - b * floor_divided(a, b);
  return static_cast<double>(a) / static_cast<double>(b);
}

Value float_binary(std::string_view sign, double a, double b) {
  if (sign == "+") return a + b;
  if (sign == "-") return a - b;
  if (sign == "*") return a * b;
  if (sign == "**") {
    if (a < 0 && b != std::floor(b)) throw BadOperation("a negative number to the power of {}", b);
    if (a == 0 && b < 0) throw BadOperation("0 to the power of {}", b);
    const double result = std::pow(a, b);
    if (std::isinf(result) && !std::isinf(a) && !std::isinf(b)) throw BadOperation("the power is too large");
    return result;
  }
  if (b == 0) throw BadOperation("division by zero");
  if (sign == "/") return a / b;
  double rest = std::fmod(a, b);
  if (rest != 0 && (rest < 0) != (b < 0)) rest += b;
  if (sign == "%") return rest == 0 ? std::copysign(0.0, b) : rest;
  const double quotient = (a - rest) / b;
  return quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient);
}

Value repeated(const Value& what, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  const size_t size = what.is<Text>() ? what.text().size() : what.as<SequencePtr>()->items.size() * sizeof(Value);
  if (size > 0 && times > budget.limits().bytes)
    throw BadOperation("a {} repeated {} times is too large", what.type(), times);
  budget.make(size * static_cast<size_t>(times));
  if (size == 0) times = 0;
  if (what.is<Text>()) {
    std::string out;
    for (; times > 0; --times) out += what.text();
    return text_like(what, std::move(out));
  }
  std::vector<Value> items;
  const std::vector<Value>& from = what.as<SequencePtr>()->items;
  for (; times > 0; --times) items.insert(items.end(), from.begin(), from.end());
  return make_sequence(std::move(items), what.as<SequencePtr>()->kind);
}

bool is_list(const Value& value) {
  return value.is_sequence(SequenceKind::kList) || value.is_sequence(SequenceKind::kTuple);
}

Value added(const Value& left, const Value& right, Budget& budget) {
  if (left.is<Text>() && right.is<Text>()) {
    const bool markup = left.is_markup() || right.is_markup();
    const auto part = [&](const Value& value) {
      std::string text = markup && !value.is_markup() ? escaped(value.text()) : value.text();
      budget.make(text.size());
      return text;
    };
    std::string out = part(left) + part(right);
    return markup ? Value::markup(std::move(out)) : Value(std::move(out));
  }
  if (!is_list(left) || !is_list(right) || left.type() != right.type()) refuse("+", left, right);
  std::vector<Value> items = left.as<SequencePtr>()->items;
  const std::vector<Value>& more = right.as<SequencePtr>()->items;
  budget.make((items.size() + more.size()) * sizeof(Value));
  items.insert(items.end(), more.begin(), more.end());
  return make_sequence(std::move(items), left.as<SequencePtr>()->kind);
}

void refuse_undefined(const Value& value) {
  if (!value.is<Undefined>()) return;
  const auto& what = value.as<Undefined>().what;
  throw BadOperation("{} is undefined", what ? *what : "a value");
}

std::string name_of(const Value& object, std::string_view key) {
  return object.is<DictPtr>() ? fmt::format("`{}`", key) : fmt::format("`{}` of a {}", key, object.type());
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const auto& items = loop.items->items;
  const auto index = static_cast<int64_t>(loop.index), size = static_cast<int64_t>(items.size());
  if (name == "index") return index + 1;
  if (name == "index0") return index;
  if (name == "revindex") return size - index;
  if (name == "revindex0") return size - index - 1;
  if (name == "first") return index == 0;
  if (name == "last") return index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return int64_t{1};
  if (name == "depth0") return int64_t{0};
  if (name == "previtem") return index > 0 ? items[loop.index - 1] : Value::undefined("loop.previtem");
  if (name == "nextitem") return index + 1 < size ? items[loop.index + 1] : Value::undefined("loop.nextitem");
  throw BadOperation("`loop.{}` is not supported", name);
}

/// Python's rule for one end of a slice.
int64_t bound(const Value& given, int64_t size, int64_t step, bool is_start) {
  if (given.is<None>()) return is_start == (step > 0) ? (step > 0 ? 0 : -1) : (step > 0 ? size : size - 1);
  if (!given.is_whole()) throw BadOperation("a {} in a slice", given.type());
  int64_t at = given.whole();
  if (at < 0) at = at < -size ? -1 : at + size;
  if (step > 0) return std::clamp<int64_t>(at, 0, size);
  return std::clamp<int64_t>(at, -1, size - 1);
}

}  // namespace

Value text_like(const Value& like, std::string text) {
  return like.is_markup() ? Value::markup(std::move(text)) : Value(std::move(text));
}

Value binary(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  refuse_undefined(left);
  refuse_undefined(right);
  if (left.is_whole() && right.is_whole()) return whole_binary(sign, left.whole(), right.whole());
  if (left.is_number() && right.is_number()) return float_binary(sign, left.number(), right.number());
  if (sign == "+") return added(left, right, budget);
  if (sign == "*" && right.is_whole() && (left.is<Text>() || is_list(left)))
    return repeated(left, right.whole(), budget);
  if (sign == "*" && left.is_whole() && (right.is<Text>() || is_list(right)))
    return repeated(right, left.whole(), budget);
  if (sign == "%" && left.is<Text>()) throw BadOperation("`%` with a string is not supported; use `~`");
  refuse(sign, left, right);
}

Value negative(const Value& value) {
  refuse_undefined(value);
  if (value.is<double>()) return -value.as<double>();
  if (!value.is_whole()) throw BadOperation("the negative of a {}", value.type());
  if (value.whole() == INT64_MIN) checked(true);
  return -value.whole();
}

bool equal(const Value& left, const Value& right, Budget& budget) {
  budget.step(static_cast<size_t>(std::min(size_of(left), size_of(right))));
  return equal(left, right);
}

int compare(const Value& left, const Value& right, Budget& budget) {
  refuse_undefined(left);
  refuse_undefined(right);
  const auto size = static_cast<size_t>(std::min(size_of(left), size_of(right)));
  budget.step(size);
  // On every level, items are first tested for equality and then compared.
  if (left.is<SequencePtr>()) budget.step(size * static_cast<size_t>(std::min(depth_of(left), depth_of(right))));
  return compare(left, right);
}

bool contains(const Value& container, const Value& item, Budget& budget) {
  if (container.is<Text>()) {
    if (!item.is<Text>()) throw BadOperation("`in` of a {} and a string", item.type());
    budget.step(container.text().size() / 16);
    return find_text(container.text(), item.text()) != std::string::npos;
  }
  if (container.is<DictPtr>()) {
    const Dict& dict = *container.as<DictPtr>();
    return std::any_of(dict.items.begin(), dict.items.end(),
                       [&](const auto& entry) { return equal(entry.first, item, budget); });
  }
  if (!container.is<SequencePtr>() && !container.is<Undefined>()) throw BadOperation("`in` a {}", container.type());
  const std::vector<Value> items = items_of(container, budget);
  return std::any_of(items.begin(), items.end(), [&](const Value& other) { return equal(other, item, budget); });
}

bool compare_by(std::string_view sign, const Value& left, const Value& right, Budget& budget) {
  if (sign == "==") return equal(left, right, budget);
  if (sign == "!=") return !equal(left, right, budget);
  if (sign == "in") return contains(right, left, budget);
  if (sign == "not in") return !contains(right, left, budget);
  if (left.is<double>() || right.is<double>()) {  // NaN has no order
    if (left.is_number() && right.is_number() && (std::isnan(left.number()) || std::isnan(right.number())))
      return false;
  }
  const int order = compare(left, right, budget);
  if (sign == "<") return order < 0;
  if (sign == "<=") return order <= 0;
  return sign == ">" ? order > 0 : order >= 0;
}

Value attribute(const Value& object, std::string_view name) {
  refuse_undefined(object);
  if (object.is<DictPtr>()) {
    if (const Value* found = find(*object.as<DictPtr>(), name)) return *found;
  } else if (object.is<NamespacePtr>()) {
    const auto& fields = object.as<NamespacePtr>()->fields;
    if (const auto found = fields.find(std::string(name)); found != fields.end()) return found->second;
  } else if (object.is<LoopPtr>()) {
    return loop_attribute(*object.as<LoopPtr>(), name);
  }
  return Value::undefined(name_of(object, name));
}

Value item(const Value& object, const Value& key, Budget& budget) {
  refuse_undefined(object);
  if (object.is<DictPtr>()) {
    budget.step(object.as<DictPtr>()->items.size() / 8);
    if (const Value* found = find(*object.as<DictPtr>(), key)) return *found;
    return Value::undefined(name_of(object, key.is<Text>() ? key.text() : key.type()));
  }
  const bool list = is_list(object) || object.is_sequence(SequenceKind::kRange);
  if (key.is_whole() && (list || object.is<Text>())) {
    if (object.is<Text>()) budget.step(object.text().size() / 16);
    const auto size = static_cast<int64_t>(list ? object.as<SequencePtr>()->items.size() : length(object.text()));
    const int64_t at = key.whole() < 0 ? key.whole() + size : key.whole();
    if (at < 0 || at >= size) return Value::undefined(fmt::format("item {}", key.whole()));
    if (list) return object.as<SequencePtr>()->items[static_cast<size_t>(at)];
    budget.make(object.text().size());
    return text_like(object, std::string(characters(object.text())[static_cast<size_t>(at)]));
  }
  if (key.is<Text>()) return attribute(object, key.text());
  return Value::undefined(fmt::format("an item of a {}", object.type()));
}

Value slice(const Value& object, const Value& start, const Value& stop, const Value& step, Budget& budget) {
  refuse_undefined(object);
  if (!object.is<Text>() && !is_list(object) && !object.is_sequence(SequenceKind::kRange))
    return Value::undefined(fmt::format("a slice of a {}", object.type()));
  if (!step.is<None>() && (!step.is_whole() || step.whole() == 0))
    throw BadOperation("the step of a slice must be an integer other than 0");
  const int64_t by = step.is<None>() ? 1 : step.whole();
  std::vector<Value> items;
  if (object.is<Text>()) budget.make(object.text().size() * sizeof(std::string_view));
  const auto letters = object.is<Text>() ? characters(object.text()) : std::vector<std::string_view>{};
  const auto* list = object.is<Text>() ? nullptr : &object.as<SequencePtr>()->items;
  const auto size = static_cast<int64_t>(list ? list->size() : letters.size());
  const int64_t end = bound(stop, size, by, false);
  std::string text;
  if (list) budget.make(list->size() * sizeof(Value));
  for (int64_t at = bound(start, size, by, true); by > 0 ? at < end : at > end;) {
    if (list)
      items.push_back((*list)[static_cast<size_t>(at)]);
    else
      text += letters[static_cast<size_t>(at)];
    if (__builtin_add_overflow(at, by, &at)) break;
  }
  if (!list) return text_like(object, std::move(text));
  return make_sequence(std::move(items), object.as<SequencePtr>()->kind);
}

std::vector<Value> items_of(const Value& value, Budget& budget) {
  if (value.is<SequencePtr>()) {
    Sequence& sequence = *value.as<SequencePtr>();
    budget.make(sequence.items.size() * sizeof(Value));
    if (sequence.kind == SequenceKind::kLazy) return std::exchange(sequence.items, {});
    return sequence.items;
  }
  std::vector<Value> out;
  if (value.is<DictPtr>()) {
    budget.make(value.as<DictPtr>()->items.size() * sizeof(Value));
    for (const auto& [key, item] : value.as<DictPtr>()->items) out.push_back(key);
  } else if (value.is<Text>()) {
    budget.make(value.text().size() * (sizeof(Value) + sizeof(std::string)));
    for (const std::string_view character : characters(value.text())) out.emplace_back(std::string(character));
  } else if (!value.is<Undefined>()) {
    throw BadOperation("a {} is not iterable", value.type());
  }
  return out;
}

}  // namespace trainer::data::jinja
