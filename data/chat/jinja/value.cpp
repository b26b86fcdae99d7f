#include "data/chat/jinja/value.h"

#include <algorithm>

#include "data/chat/jinja/budget.h"
#include "data/chat/jinja/failure.h"

namespace trainer::data::jinja {
namespace {

int checked_depth(int depth) {
  if (depth > kMaxValueDepth) throw BadOperation("lists nested deeper than {} levels", kMaxValueDepth);
  return depth;
}

template <class Container>
void contain(Container& container, const Value& item) {
  container.depth = std::max(container.depth, checked_depth(depth_of(item) + 1));
  container.size = std::min(container.size + size_of(item), int64_t{1} << 40);
}

bool can_be_key(const Value& value) {
  return value.is_number() || value.is<Text>() || value.is<None>();
}

bool equal_items(const std::vector<Value>& left, const std::vector<Value>& right) {
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Value& a, const Value& b) { return equal(a, b); });
}

bool equal_dicts(const Dict& left, const Dict& right) {
  if (left.items.size() != right.items.size()) return false;
  if (left.items.size() > 1000) throw BadOperation("dicts with more than 1000 keys can't be compared");
  return std::all_of(left.items.begin(), left.items.end(), [&](const auto& item) {
    const Value* other = find(right, item.first);
    return other != nullptr && equal(item.second, *other);
  });
}

template <class Number>
int sign(Number left, Number right) {
  return left < right ? -1 : (right < left ? 1 : 0);
}

template <class Json>
Value value_of(const Json& json) {
  switch (json.type()) {
    case Json::value_t::boolean:
      return json.template get<bool>();
    case Json::value_t::number_integer:
      return json.template get<int64_t>();
    case Json::value_t::number_unsigned:
      if (json.template get<uint64_t>() > INT64_MAX) return json.template get<double>();
      return json.template get<int64_t>();
    case Json::value_t::number_float:
      return json.template get<double>();
    case Json::value_t::string:
      return json.template get<std::string>();
    case Json::value_t::array: {
      std::vector<Value> items;
      for (const Json& item : json) items.push_back(value_of(item));
      return make_sequence(std::move(items));
    }
    case Json::value_t::object: {
      std::vector<std::pair<Value, Value>> items;
      for (const auto& [key, item] : json.items()) items.emplace_back(key, value_of(item));
      return make_dict(std::move(items));
    }
    default:
      return None{};
  }
}

}  // namespace

Value Value::undefined(std::string what) {
  Value value;
  value.data_ = Undefined{std::make_shared<const std::string>(std::move(what))};
  return value;
}

Value Value::markup(std::string text) {
  Value value(std::move(text));
  value.markup_ = true;
  return value;
}

std::string_view Value::type() const {
  static constexpr const char* kNames[] = {"undefined", "NoneType", "bool",      "int",  "float", "str",
                                           "list",      "dict",     "namespace", "loop", "macro", "function"};
  if (!is<SequencePtr>()) return kNames[data_.index()];
  static constexpr const char* kKinds[] = {"list", "tuple", "range", "view", "generator"};
  return kKinds[static_cast<size_t>(as<SequencePtr>()->kind)];
}

Value make_sequence(std::vector<Value> items, Sequence::Kind kind) {
  auto made = std::make_shared<Sequence>(Sequence{kind, std::move(items)});
  for (const Value& item : made->items) contain(*made, item);
  return made;
}

Value make_dict(std::vector<std::pair<Value, Value>> items) {
  auto made = std::make_shared<Dict>();
  std::map<std::string, size_t> places;  // of string keys, so that a large dict does not take quadratic time
  for (auto& [key, item] : items) {
    if (!can_be_key(key)) throw BadOperation("a {} can't be the key of a dict", key.type());
    contain(*made, key);
    contain(*made, item);
    size_t place = made->items.size();
    if (key.is<Text>()) {
      place = places.emplace(key.text(), place).first->second;
    } else {
      for (size_t i = 0; i < made->items.size(); ++i)
        if (equal(made->items[i].first, key)) place = i;
    }
    if (place < made->items.size())
      made->items[place].second = std::move(item);
    else
      made->items.emplace_back(std::move(key), std::move(item));
  }
  return made;
}

int depth_of(const Value& value) {
  if (value.is<SequencePtr>()) return value.as<SequencePtr>()->depth;
  if (value.is<DictPtr>()) return value.as<DictPtr>()->depth;
  return value.is<LoopPtr>() ? value.as<LoopPtr>()->items->depth + 1 : 0;
}

int64_t size_of(const Value& value) {
  if (value.is<SequencePtr>()) return value.as<SequencePtr>()->size;
  if (value.is<DictPtr>()) return value.as<DictPtr>()->size;
  return value.is<Text>() ? 1 + static_cast<int64_t>(value.text().size() / 16) : 1;
}

const Value* find(const Dict& dict, const Value& key) {
  for (const auto& [name, item] : dict.items)
    if (equal(name, key)) return &item;
  return nullptr;
}

const Value* find(const Dict& dict, std::string_view key) {
  for (const auto& [name, item] : dict.items)
    if (name.is<Text>() && name.text() == key) return &item;
  return nullptr;
}

bool truth(const Value& value) {
  if (value.is<Undefined>() || value.is<None>()) return false;
  if (value.is_number()) return value.number() != 0;
  if (value.is<Text>()) return !value.text().empty();
  if (value.is<DictPtr>()) return !value.as<DictPtr>()->items.empty();
  if (value.is<SequencePtr>())
    return value.is_sequence(Sequence::Kind::kLazy) || !value.as<SequencePtr>()->items.empty();
  return true;
}

bool equal(const Value& left, const Value& right) {
  if (left.is_whole() && right.is_whole()) return left.whole() == right.whole();
  if (left.is_number() && right.is_number()) return left.number() == right.number();
  if (left.is<Text>() && right.is<Text>()) return left.text() == right.text();
  if (left.is<None>() || left.is<Undefined>()) return left.is<None>() ? right.is<None>() : right.is<Undefined>();
  if (left.is<SequencePtr>() && right.is<SequencePtr>()) {
    const Sequence &a = *left.as<SequencePtr>(), &b = *right.as<SequencePtr>();
    return &a == &b || (a.kind == b.kind && a.kind != Sequence::Kind::kLazy && equal_items(a.items, b.items));
  }
  if (left.is<DictPtr>() && right.is<DictPtr>()) return equal_dicts(*left.as<DictPtr>(), *right.as<DictPtr>());
  if (left.is<NamespacePtr>() && right.is<NamespacePtr>()) return left.as<NamespacePtr>() == right.as<NamespacePtr>();
  if (left.is<MacroPtr>() && right.is<MacroPtr>()) return left.as<MacroPtr>() == right.as<MacroPtr>();
  return false;
}

int compare(const Value& left, const Value& right) {
  if (left.is_whole() && right.is_whole()) return sign(left.whole(), right.whole());
  if (left.is_number() && right.is_number()) return sign(left.number(), right.number());
  if (left.is<Text>() && right.is<Text>()) return left.text().compare(right.text());
  if (left.is<SequencePtr>() && right.is<SequencePtr>()) {
    const Sequence &a = *left.as<SequencePtr>(), &b = *right.as<SequencePtr>();
    if (a.kind == b.kind && (a.kind == Sequence::Kind::kList || a.kind == Sequence::Kind::kTuple)) {
      for (size_t i = 0; i < std::min(a.items.size(), b.items.size()); ++i)
        if (!equal(a.items[i], b.items[i])) return compare(a.items[i], b.items[i]);
      return sign(a.items.size(), b.items.size());
    }
  }
  throw BadOperation("a {} and a {} can't be ordered", left.type(), right.type());
}

Value from_json(const nlohmann::json& json) {
  return value_of(json);
}

Value from_json(const nlohmann::ordered_json& json) {
  return value_of(json);
}

}  // namespace trainer::data::jinja
