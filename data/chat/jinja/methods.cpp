// Methods of strings, lists and dicts.
#include <algorithm>

#include "data/chat/jinja/builtins.h"
#include "data/chat/jinja/operations.h"
#include "data/chat/jinja/text.h"
#include "data/chat/jinja/write.h"

namespace trainer::data::jinja {
namespace {

using SequenceKind = Sequence::Kind;

constexpr std::string_view kTextMethods[] = {"strip",      "lstrip",   "rstrip",  "split", "rsplit",  "splitlines",
                                             "startswith", "endswith", "replace", "upper", "lower",   "title",
                                             "capitalize", "find",     "count",   "join",  "isdigit", "format"};
constexpr std::string_view kDictMethods[] = {"items", "keys", "values", "get"};
constexpr std::string_view kListMethods[] = {"index", "count"};
constexpr std::string_view kChanging[] = {"append", "extend",  "insert", "pop",     "remove",    "clear",
                                          "sort",   "reverse", "update", "popitem", "setdefault"};

template <size_t kSize>
bool has(const std::string_view (&names)[kSize], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

const std::string& wanted_text(const std::optional<Value>& given) {
  if (!given || !given->is<Text>()) throw BadOperation("expected a string");
  return given->text();
}

/// A value as it is inserted into markup: escaped unless it is markup itself.
std::string inserted(const Value& value) {
  return value.is_markup() ? value.text() : escaped(wanted_text(value));
}

std::optional<std::string> text_or_none(const std::optional<Value>& given) {
  if (!given || given->is<None>()) return {};
  return wanted_text(given);
}

Value list_of(const Value& text, const std::vector<std::string>& parts, Budget& budget) {
  budget.make(parts.size() * (sizeof(Value) + sizeof(std::string)));
  std::vector<Value> items;
  for (const std::string& part : parts) items.push_back(text_like(text, part));
  return make_sequence(std::move(items));
}

/// startswith, endswith: one string, or a tuple of strings.
bool begins_or_ends(const std::string& text, const std::optional<Value>& with, bool begins) {
  if (with && with->is_sequence(SequenceKind::kTuple)) {
    const auto& all = with->as<SequencePtr>()->items;
    return std::any_of(all.begin(), all.end(), [&](const Value& one) { return begins_or_ends(text, one, begins); });
  }
  const std::string& part = wanted_text(with);
  return begins ? text.starts_with(part) : text.ends_with(part);
}

Value joined(const Value& separator, const std::optional<Value>& list, Budget& budget) {
  if (!list) throw BadOperation("`join` needs a list");
  std::string out;
  bool first = true;
  for (const Value& part : items_of(*list, budget)) {
    if (!first) out += separator.text();
    first = false;
    const std::string text = separator.is_markup() ? inserted(part) : wanted_text(part);
    budget.make(separator.text().size() + text.size());
    out += text;
  }
  return text_like(separator, std::move(out));
}

int64_t find_in(const std::string& text, const std::string& part) {
  const size_t found = find_text(text, part);
  return found == std::string::npos ? -1 : static_cast<int64_t>(length(std::string_view(text).substr(0, found)));
}

int64_t count_in(const std::string& text, const std::string& part) {
  if (part.empty()) return static_cast<int64_t>(length(text)) + 1;
  int64_t count = 0;
  for (size_t at = find_text(text, part); at != std::string::npos; at = find_text(text, part, at + part.size()))
    ++count;
  return count;
}

bool is_digits(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void pay_replace(const std::string& text, const std::string& from, const std::string& to, Budget& budget) {
  const size_t pieces = from.empty() ? text.size() + 1 : text.size() / from.size();
  if (to.size() > from.size() || from.empty())
    budget.make(
        static_cast<size_t>(std::min<double>(1e18, static_cast<double>(pieces) * static_cast<double>(to.size()))) /
        (from.empty() ? 1 : 8));
}

/// Python's str.format with {}, {0} and {name}.
Value formatted(const Value& value, Arguments& a, Budget& budget) {
  const std::string& text = value.text();
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (at + 1 < text.size() && text[at + 1] == c) {
      out += text[at++];
      continue;
    }
    const size_t end = text.find_first_of("{}", at + 1);
    if (c == '}' || end == std::string::npos || text[end] != '}')
      throw BadOperation("`format` of a string with an unmatched {}", c);
    const std::string field = text.substr(at + 1, end - at - 1);
    if (field.find_first_of(".[!:") != std::string::npos)
      throw BadOperation("`format` with {{{}}} is not supported; {{}}, {{0}} and {{name}} are", field);
    const bool by_place = field.empty() || (is_digits(field) && field.size() < 4);
    const size_t place = field.empty() ? next++ : (by_place ? std::stoul(field) : a.placed());
    const auto given = a.take(place, by_place ? "" : field);
    if (!given) throw BadOperation("`format` has no value for {{{}}}", field);
    const std::string inserted = text_of(*given, budget);
    out += value.is_markup() && !given->is_markup() ? escaped(inserted) : inserted;
    budget.make(inserted.size());
    at = end;
  }
  a = {};  // unused arguments are ignored, as in Python
  return text_like(value, std::move(out));
}

Value text_method(const Value& value, std::string_view name, Arguments& a, Budget& budget) {
  const std::string& text = value.text();
  const auto like = [&](std::string out) { return text_like(value, std::move(out)); };
  budget.make(text.size());
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const auto set = text_or_none(a.take(0, "chars"));
    return like(std::string(stripped(text, name != "rstrip", name != "lstrip", set)));
  }
  if (name == "split" || name == "rsplit") {
    const auto separator = text_or_none(a.take(0, "sep"));
    return list_of(value, split(text, separator, a.whole(1, "maxsplit", -1), name == "rsplit"), budget);
  }
  if (name == "splitlines") return list_of(value, lines(text), budget);
  if (name == "startswith" || name == "endswith") return begins_or_ends(text, a.take(0, "prefix"), name[0] == 's');
  if (name == "replace") {
    const std::string from = wanted_text(a.take(0, "old"));
    const auto given = a.take(1, "new");
    const std::string to = value.is_markup() && given ? inserted(*given) : wanted_text(given);
    pay_replace(text, from, to, budget);
    return like(replaced(text, from, to, a.whole(2, "count", -1)));
  }
  if (name == "upper") return like(upper(text));
  if (name == "lower") return like(lower(text));
  if (name == "title") return like(titled(text, false));
  if (name == "capitalize") return like(capitalized(text));
  if (name == "isdigit") return is_digits(text);
  if (name == "format") return formatted(value, a, budget);
  if (name == "join") return joined(value, a.take(0, "iterable"), budget);
  const std::string part = wanted_text(a.take(0, "sub"));
  return name == "find" ? find_in(text, part) : count_in(text, part);
}

Value dict_method(const Dict& dict, std::string_view name, Arguments& a, Budget& budget) {
  budget.make(dict.items.size() * sizeof(Value));
  if (name == "get") {
    const auto key = a.take(0, "key"), fallback = a.take(1, "default");
    if (!key) throw BadOperation("`get` needs a key");
    const Value* found = find(dict, *key);
    return found ? *found : fallback.value_or(None{});
  }
  std::vector<Value> out;
  for (const auto& [key, item] : dict.items) {
    if (name == "items")
      out.push_back(make_sequence({key, item}, SequenceKind::kTuple));
    else
      out.push_back(name == "keys" ? key : item);
  }
  return make_sequence(std::move(out), SequenceKind::kView);
}

Value list_method(const Sequence& list, std::string_view name, Arguments& a, Budget& budget) {
  const auto wanted = a.take(0, "value");
  if (!wanted) throw BadOperation("`{}` needs a value", name);
  int64_t count = 0;
  for (size_t i = 0; i < list.items.size(); ++i) {
    if (!equal(list.items[i], *wanted, budget)) continue;
    if (name == "index") return static_cast<int64_t>(i);
    ++count;
  }
  if (name == "index") throw BadOperation("the value is not in the list");
  return count;
}

bool is_plain_list(const Value& object) {
  return object.is_sequence(SequenceKind::kList) || object.is_sequence(SequenceKind::kTuple);
}

}  // namespace

bool is_method(const Value& object, std::string_view name) {
  if (object.is<Text>()) return has(kTextMethods, name);
  if (object.is<DictPtr>()) return has(kDictMethods, name) || has(kChanging, name);
  return is_plain_list(object) && (has(kListMethods, name) || has(kChanging, name));
}

std::optional<Value> call_method(const Value& object, std::string_view name, Arguments& arguments, Budget& budget) {
  if (!is_method(object, name)) return {};
  if (!object.is<Text>() && has(kChanging, name))
    throw BadOperation("`{}` would modify a {}, which templates cannot do; use `+` or a namespace", name,
                       object.type());
  Value out = object.is<Text>()      ? text_method(object, name, arguments, budget)
              : object.is<DictPtr>() ? dict_method(*object.as<DictPtr>(), name, arguments, budget)
                                     : list_method(*object.as<SequencePtr>(), name, arguments, budget);
  arguments.finish();
  return out;
}

}  // namespace trainer::data::jinja
