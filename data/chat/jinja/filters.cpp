// Filters: `value | filter`.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/operations.h"
#include "data/chat/jinja/text.h"
#include "data/chat/jinja/write.h"

namespace trainer::data::jinja {
namespace {

using SequenceKind = Sequence::Kind;
using Filter = Value (*)(const Value& value, Arguments& arguments, Budget& budget);

Value lazy(std::vector<Value> items) {
  return make_sequence(std::move(items), SequenceKind::kLazy);
}

std::string paid_text(const Value& value, Budget& budget) {
  std::string text = text_of(value, budget);
  budget.make(text.size());
  return text;
}

/// `change` applied to the value's text; markup stays markup.
template <class Change>
Value changed(const Value& value, Budget& budget, const Change& change) {
  return text_like(value, change(paid_text(value, budget)));
}

/// As markup; a value that is already markup is unchanged, unless `again`.
Value escape(const Value& value, Budget& budget, bool again) {
  if (value.is_markup() && !again) return value;
  std::string text = escaped(paid_text(value, budget));
  budget.make(text.size());
  return Value::markup(std::move(text));
}

// Strings.

Value trim(const Value& v, Arguments& a, Budget& b) {
  const auto set = a.take(0, "chars");
  const std::string text = paid_text(v, b);
  if (!set || set->is<None>()) return text_like(v, std::string(stripped(text, true, true)));
  const std::string characters = text_of(*set, b);
  return text_like(v, std::string(stripped(text, true, true, characters)));
}

Value replace(const Value& v, Arguments& a, Budget& b) {
  const auto from = a.take(0, "old"), to = a.take(1, "new");
  if (!from || !to) throw BadOperation("`replace` needs two arguments: old and new");
  Arguments arguments;
  arguments.add("", text_of(*from, b));
  arguments.add("", text_of(*to, b));
  arguments.add("", a.whole(2, "count", -1));
  return *call_method(text_of(v, b), "replace", arguments, b);
}

Value indent(const Value& v, Arguments& a, Budget& b) {
  const auto width = a.take(0, "width");
  const bool first = a.flag(1, "first", false), blank = a.flag(2, "blank", false);
  const int64_t spaces = width && width->is_whole() ? width->whole() : 4;
  if (spaces > 1000) throw BadOperation("`indent` by {}", spaces);
  const std::string by = width && width->is<Text>() ? width->text() : std::string(std::max<int64_t>(spaces, 0), ' ');
  std::string out = first ? by : "";
  bool later = false;
  for (const std::string& line : lines(paid_text(v, b) + "\n")) {
    if (later) out += '\n';
    if (later && (blank || !line.empty())) out += by;
    b.make(line.size() + by.size());
    out += line;
    later = true;
  }
  return text_like(v, std::move(out));
}

Value to_json(const Value& v, Arguments& a, Budget& b) {
  JsonStyle style;
  style.ascii = a.flag(0, "ensure_ascii", false);
  const Value indent = a.take(1, "indent").value_or(None{}), separators = a.take(2, "separators").value_or(None{});
  style.sorted = a.flag(3, "sort_keys", false);
  style.spread = !indent.is<None>();
  if (indent.is<Text>())
    style.indent = indent.text();
  else if (indent.is_whole() && indent.whole() > 0)
    style.indent.assign(static_cast<size_t>(std::min<int64_t>(indent.whole(), 100)), ' ');
  style.comma = style.spread ? "," : ", ";
  style.colon = ": ";
  if (!separators.is<None>()) {
    const std::vector<Value> both = items_of(separators, b);
    if (both.size() != 2 || !both[0].is<Text>() || !both[1].is<Text>())
      throw BadOperation("`separators` must be two strings");
    style.comma = both[0].text();
    style.colon = both[1].text();
  }
  return json_of(v, style, b);
}

// Numbers.

Value to_int(const Value& v, Arguments& a, Budget&) {
  const Value fallback = a.take(0, "default").value_or(int64_t{0});
  const int64_t base = a.whole(1, "base", 10);
  if (v.is_whole()) return v.whole();
  double number = 0;
  if (v.is<Text>()) {
    const std::string text(stripped(v.text(), true, true));
    char* end = nullptr;
    errno = 0;
    const long long whole = std::strtoll(text.c_str(), &end, static_cast<int>(base));
    if (!text.empty() && *end == '\0' && errno == 0 && base == 10) return static_cast<int64_t>(whole);
    if (base != 10) throw BadOperation("`int` with a base is not supported");
    if (text.find_first_not_of("0123456789+-.eE") != std::string::npos) return fallback;
    number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0') return fallback;
  } else if (v.is<double>()) {
    number = v.as<double>();
  } else {
    return fallback;
  }
  if (!std::isfinite(number)) return fallback;
  if (std::fabs(number) >= 9.2e18) throw BadOperation("a number does not fit in 64 bits");
  return static_cast<int64_t>(number);
}

Value to_float(const Value& v, Arguments& a, Budget&) {
  const Value fallback = a.take(0, "default").value_or(0.0);
  if (v.is_number()) return v.number();
  if (!v.is<Text>()) return fallback;
  const std::string text(stripped(v.text(), true, true));
  char* end = nullptr;
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string::npos) return fallback;
  const double number = std::strtod(text.c_str(), &end);
  return *end == '\0' ? Value(number) : fallback;
}

Value rounded(const Value& v, Arguments& a, Budget&) {
  const int64_t digits = a.whole(0, "precision", 0);
  const std::string method = a.text(1, "method", "common");
  if (!v.is_number()) throw BadOperation("`round` of a {}", v.type());
  if (digits < 0 || digits > 15) throw BadOperation("`round` to {} digits", digits);
  if (method == "common" && v.is_whole()) return v.whole();
  if (!std::isfinite(v.number())) return v;
  if (method == "common")
    return std::strtod(fmt::format("{:.{}f}", v.number(), static_cast<int>(digits)).c_str(), nullptr);
  if (method != "ceil" && method != "floor") throw BadOperation("`round` by `{}`", method);
  const double scale = std::pow(10.0, static_cast<double>(digits)), scaled = v.number() * scale;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Value absolute(const Value& v, Arguments&, Budget&) {
  if (!v.is_number()) throw BadOperation("`abs` of a {}", v.type());
  return v.number() < 0 ? negative(v) : (v.is<bool>() ? Value(v.whole()) : v);
}

// Lists.

Value count(const Value& v, Arguments&, Budget& b) {
  if (v.is<Text>()) {
    b.step(v.text().size() / 16);
    return static_cast<int64_t>(length(v.text()));
  }
  if (v.is<DictPtr>()) return static_cast<int64_t>(v.as<DictPtr>()->items.size());
  if (v.is<Undefined>()) return int64_t{0};
  if (!v.is<SequencePtr>() || v.is_sequence(SequenceKind::kLazy)) throw BadOperation("a {} has no length", v.type());
  return static_cast<int64_t>(v.as<SequencePtr>()->items.size());
}

/// The part of an item at a path such as `a.b.0`.
Value part_of(Value value, const Value& path, Budget& b) {
  if (path.is_whole()) return item(value, path, b);
  if (!path.is<Text>()) throw BadOperation("`attribute` is a {}", path.type());
  for (const std::string& name : split(path.text(), ".", -1)) {
    const bool is_index =
        !name.empty() && name.size() < 10 && name.find_first_not_of("0123456789") == std::string::npos;
    value = is_index ? item(value, int64_t{std::atoll(name.c_str())}, b) : item(value, name, b);
  }
  return value;
}

std::vector<Value> parts_of(const std::vector<Value>& items, const std::optional<Value>& path, Budget& b) {
  if (!path || path->is<None>()) return items;
  std::vector<Value> out;
  for (const Value& one : items) out.push_back(part_of(one, *path, b));
  return out;
}

Value join(const Value& v, Arguments& a, Budget& b) {
  const auto separator = a.take(0, "d");
  const auto path = a.take(1, "attribute");
  const std::string between = separator ? text_of(*separator, b) : "";
  std::string out;
  bool first = true;
  for (const Value& part : parts_of(items_of(v, b), path, b)) {
    const std::string text = text_of(part, b);
    b.make(between.size() + text.size());
    if (!first) out += between;
    first = false;
    out += text;
  }
  return out;
}

Value first(const Value& v, Arguments&, Budget& b) {
  if (v.is_sequence(SequenceKind::kLazy)) {
    std::vector<Value>& items = v.as<SequencePtr>()->items;
    if (items.empty()) return Value::undefined("the first item");
    Value front = items.front();
    b.step(items.size());
    items.erase(items.begin());
    return front;
  }
  const std::vector<Value> items = items_of(v, b);
  return items.empty() ? Value::undefined("the first item") : items.front();
}

Value last(const Value& v, Arguments&, Budget& b) {
  if (v.is_sequence(SequenceKind::kLazy)) throw BadOperation("`last` of a generator; put `| list` before it");
  const std::vector<Value> items = items_of(v, b);
  return items.empty() ? Value::undefined("the last item") : items.back();
}

Value reverse(const Value& v, Arguments&, Budget& b) {
  std::vector<Value> items = items_of(v, b);
  std::reverse(items.begin(), items.end());
  if (!v.is<Text>()) return lazy(std::move(items));
  std::string out;
  for (const Value& character : items) out += character.text();
  return text_like(v, std::move(out));
}

/// The key by which items are sorted and compared.
Value key_of(const Value& value, bool case_sensitive) {
  return value.is<Text>() && !case_sensitive ? Value(lower(value.text())) : value;
}

/// The items sorted by their keys.
std::vector<Value> sorted_by(const std::vector<Value>& items, const std::vector<Value>& keys, bool descending,
                             Budget& b) {
  std::vector<size_t> order(items.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t left, size_t right) {
    return descending ? compare(keys[right], keys[left], b) < 0 : compare(keys[left], keys[right], b) < 0;
  });
  std::vector<Value> out;
  for (const size_t i : order) out.push_back(items[i]);
  return out;
}

std::vector<Value> keys_of(std::vector<Value> parts, bool case_sensitive) {
  for (Value& part : parts) part = key_of(part, case_sensitive);
  return parts;
}

Value sort(const Value& v, Arguments& a, Budget& b) {
  const bool descending = a.flag(0, "reverse", false), case_sensitive = a.flag(1, "case_sensitive", false);
  const auto path = a.take(2, "attribute");
  if (path && path->is<Text>() && path->text().find(',') != std::string::npos)
    throw BadOperation("`sort` by several attributes is not supported");
  const std::vector<Value> items = items_of(v, b);
  return make_sequence(sorted_by(items, keys_of(parts_of(items, path, b), case_sensitive), descending, b));
}

const Dict& wanted_dict(const Value& v, const char* filter) {
  if (!v.is<DictPtr>()) throw BadOperation("`{}` of a {}", filter, v.type());
  return *v.as<DictPtr>();
}

std::vector<Value> pairs_of(const Dict& dict, Budget& b) {
  b.make(dict.items.size() * 4 * sizeof(Value));
  std::vector<Value> out;
  for (const auto& [key, item] : dict.items) out.push_back(make_sequence({key, item}, SequenceKind::kTuple));
  return out;
}

Value dict_sort(const Value& v, Arguments& a, Budget& b) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const std::string by = a.text(1, "by", "key");
  const bool descending = a.flag(2, "reverse", false);
  if (by != "key" && by != "value") throw BadOperation("`dictsort` by `{}`", by);
  const std::vector<Value> pairs = pairs_of(wanted_dict(v, "dictsort"), b);
  std::vector<Value> keys = parts_of(pairs, Value(int64_t{by == "key" ? 0 : 1}), b);
  return make_sequence(sorted_by(pairs, keys_of(std::move(keys), case_sensitive), descending, b));
}

Value pairs(const Value& v, Arguments&, Budget& b) {
  return lazy(v.is<Undefined>() ? std::vector<Value>{} : pairs_of(wanted_dict(v, "items"), b));
}

Value unique(const Value& v, Arguments& a, Budget& b) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const auto path = a.take(1, "attribute");
  const std::vector<Value> items = items_of(v, b);
  const std::vector<Value> keys = keys_of(parts_of(items, path, b), case_sensitive);
  std::vector<Value> out, seen;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto same = [&](const Value& other) { return equal(other, keys[i], b); };
    if (std::any_of(seen.begin(), seen.end(), same)) continue;
    seen.push_back(keys[i]);
    out.push_back(items[i]);
  }
  return lazy(std::move(out));
}

Value extreme(const Value& v, Arguments& a, Budget& b, bool largest) {
  const bool case_sensitive = a.flag(0, "case_sensitive", false);
  const auto path = a.take(1, "attribute");
  const std::vector<Value> items = items_of(v, b);
  if (items.empty()) return Value::undefined("the only item of an empty list");
  return sorted_by(items, keys_of(parts_of(items, path, b), case_sensitive), largest, b).front();
}

Value sum(const Value& v, Arguments& a, Budget& b) {
  const auto path = a.take(0, "attribute");
  Value out = a.take(1, "start").value_or(int64_t{0});
  for (const Value& part : parts_of(items_of(v, b), path, b)) out = binary("+", out, part, b);
  return out;
}

/// The result of `map`, `select` and similar filters for none, 0, false and empty values: nothing, for any arguments.
Value nothing(Arguments& a) {
  a = {};
  return lazy({});
}

Value map(const Value& v, Arguments& a, Budget& b) {
  if (!truth(v)) return nothing(a);
  std::vector<Value> out = items_of(v, b);
  if (a.placed() == 0) {
    const auto path = a.take(0, "attribute"), fallback = a.take(1, "default");
    if (!path) throw BadOperation("`map` needs attribute= or a filter");
    for (Value& one : out) {
      one = part_of(one, *path, b);
      if (fallback && one.is<Undefined>()) one = *fallback;
    }
    return lazy(std::move(out));
  }
  const Value name = *a.take_first();
  if (!name.is<Text>()) throw BadOperation("the name of a filter is a {}", name.type());
  const Arguments given = std::exchange(a, {});
  for (Value& one : out) {
    Arguments arguments = given;
    b.step(4);
    one = apply_filter(name.text(), one, arguments, b);
  }
  return lazy(std::move(out));
}

/// select, reject, selectattr, rejectattr.
Value choose(const Value& v, Arguments& a, Budget& b, bool by_part, bool keep) {
  if (!truth(v)) return nothing(a);
  std::optional<Value> path = by_part ? a.take_first() : std::nullopt;
  if (by_part && !path) throw BadOperation("the name of an attribute is missing");
  const auto test = a.take_first();
  if (test && !test->is<Text>()) throw BadOperation("the name of a test is a {}", test->type());
  const Arguments given = std::exchange(a, {});
  std::vector<Value> out;
  for (const Value& one : items_of(v, b)) {
    const Value part = path ? part_of(one, *path, b) : one;
    Arguments arguments = given;
    const bool holds = test ? apply_test(test->text(), part, arguments, b) : truth(part);
    if (holds == keep) out.push_back(one);
  }
  return lazy(std::move(out));
}

Value fallback(const Value& v, Arguments& a, Budget&) {
  const Value other = a.take(0, "default_value").value_or("");
  const bool falsy_too = a.flag(1, "boolean", false);
  return v.is<Undefined>() || (falsy_too && !truth(v)) ? other : v;
}

struct NamedFilter {
  std::string_view name;
  Filter filter;
};

#define GIVES(result) [](const Value& v, Arguments& a, Budget& b) -> Value { return (void)a, (void)b, result; }

constexpr NamedFilter kFilters[] = {
    {"trim", trim},
    {"tojson", to_json},
    {"upper", GIVES(changed(v, b, upper))},
    {"lower", GIVES(changed(v, b, lower))},
    {"title", GIVES(titled(paid_text(v, b), true))},
    {"capitalize", GIVES(changed(v, b, capitalized))},
    {"replace", replace},
    {"indent", indent},
    {"string", GIVES(text_like(v, paid_text(v, b)))},
    {"safe", GIVES(Value::markup(paid_text(v, b)))},
    {"escape", GIVES(escape(v, b, false))},
    {"e", GIVES(escape(v, b, false))},
    {"forceescape", GIVES(escape(v, b, true))},
    {"int", to_int},
    {"float", to_float},
    {"round", rounded},
    {"abs", absolute},
    {"length", count},
    {"count", count},
    {"join", join},
    {"first", first},
    {"last", last},
    {"list", GIVES(make_sequence(items_of(v, b)))},
    {"reverse", reverse},
    {"sort", sort},
    {"dictsort", dict_sort},
    {"items", pairs},
    {"unique", unique},
    {"min", GIVES(extreme(v, a, b, false))},
    {"max", GIVES(extreme(v, a, b, true))},
    {"sum", sum},
    {"map", map},
    {"select", GIVES(choose(v, a, b, false, true))},
    {"reject", GIVES(choose(v, a, b, false, false))},
    {"selectattr", GIVES(choose(v, a, b, true, true))},
    {"rejectattr", GIVES(choose(v, a, b, true, false))},
    {"default", fallback},
    {"d", fallback},
};

#undef GIVES

const NamedFilter* find_filter(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kFilters), std::end(kFilters), [&](const NamedFilter& f) { return f.name == name; });
  return found == std::end(kFilters) ? nullptr : found;
}

}  // namespace

bool is_filter(std::string_view name) {
  return find_filter(name) != nullptr;
}

Value apply_filter(std::string_view name, const Value& value, Arguments& arguments, Budget& budget) {
  const NamedFilter* const found = find_filter(name);
  if (found == nullptr) throw BadOperation("the filter `{}` is not supported", name);
  Value out = found->filter(value, arguments, budget);
  arguments.finish();
  return out;
}

}  // namespace trainer::data::jinja
