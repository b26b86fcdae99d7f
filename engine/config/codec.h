// Conversion between a value of a section and its node in a document, with one overload per type.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/config/document/document.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"
#include "engine/config/names.h"

namespace trainer::config {

enum class Type { kBoolean, kInteger, kNumber, kText, kTexts, kGroup };

/// What an option accepts: its type, a description, and the list of values if there is one.
struct Kind {
  Type type = Type::kText;
  std::string words;
  std::vector<std::string> choices;
  std::vector<std::string> known{};  // every word that files can have, including unsupported ones
};

// `decode` stores the value and returns "", or returns why it is not acceptable ("must be an integer; is 'many'") and
// stores nothing.
std::string decode(const Node& node, bool& value);
std::string decode(const Node& node, int64_t& value);
std::string decode(const Node& node, double& value);
std::string decode(const Node& node, std::string& value);
std::string decode(const Node& node, std::vector<std::string>& value);  // also a single text
std::string decode(const Node& node, NamesOrPattern& value);

Node encode(bool value);
Node encode(int64_t value);
Node encode(double value);
Node encode(const std::string& value);
Node encode(const std::vector<std::string>& value);
Node encode(const NamesOrPattern& value);

/// How messages describe an unacceptable node: "'many'", "a list", "empty".
std::string described(const Node& node);

template <class T>
Kind kind_of();

template <>
inline Kind kind_of<bool>() {
  return {Type::kBoolean, "true or false", {}};
}
template <>
inline Kind kind_of<int64_t>() {
  return {Type::kInteger, "an integer", {}};
}
template <>
inline Kind kind_of<double>() {
  return {Type::kNumber, "a number", {}};
}
template <>
inline Kind kind_of<std::string>() {
  return {Type::kText, "text", {}};
}
template <>
inline Kind kind_of<std::vector<std::string>>() {
  return {Type::kTexts, "a list of texts", {}};
}
template <>
inline Kind kind_of<NamesOrPattern>() {
  return {Type::kTexts, "a list of names, a regular expression, or all-linear", {}};
}

template <>
inline Kind kind_of<std::vector<double>>() {
  return {Type::kTexts, "a list of numbers", {}};
}
template <>
inline Kind kind_of<std::vector<int64_t>>() {
  return {Type::kTexts, "a list of integers", {}};
}
template <>
inline Kind kind_of<std::map<std::string, int64_t>>() {
  return {Type::kGroup, "a group of patterns, each with an integer", {}};
}
template <>
inline Kind kind_of<std::map<std::string, double>>() {
  return {Type::kGroup, "a group of patterns, each with a number", {}};
}

template <NamedEnum E>
Kind kind_of() {
  Kind kind;
  for (const auto& [value, name] : EnumNames<E>::values) kind.choices.emplace_back(name);
  kind.words = fmt::format("one of {}", fmt::join(kind.choices, ", "));
  kind.known = kind.choices;
  if constexpr (requires { EnumNames<E>::others; }) {
    for (const auto& [value, name] : EnumNames<E>::others) kind.known.emplace_back(name);
  }
  if constexpr (requires { EnumNames<E>::elsewhere; }) {
    for (const auto& [name, reason] : EnumNames<E>::elsewhere) kind.known.emplace_back(name);
  }
  if constexpr (requires { EnumNames<E>::later; }) {
    for (const std::string_view name : EnumNames<E>::later) kind.known.emplace_back(name);
  }
  if constexpr (std::same_as<E, DistributedType>) {
    for (const OtherDevices& other : kOtherDevices) kind.known.emplace_back(other.name);
  }
  return kind;
}

template <class T>
inline constexpr bool kIsAuto = false;
template <class T>
inline constexpr bool kIsAuto<Auto<T>> = true;

template <class A>
requires kIsAuto<A> Kind kind_of() {
  Kind kind = kind_of<decltype(A::value)>();
  kind.words += " or auto";
  kind.known = {"auto", "none"};
  return kind;
}

/// "none" is read as auto too: both leave the choice of the value open.
template <class T>
std::string decode(const Node& node, Auto<T>& value) {
  const std::string word = node.is_scalar() ? lower(node.text) : "";
  if (word == "auto" || word == "none") {
    value = {};
    return "";
  }
  Auto<T> parsed{true, {}};
  if (!decode(node, parsed.value).empty()) {
    return fmt::format("must be {}; is {}", kind_of<Auto<T>>().words, described(node));
  }
  value = parsed;
  return "";
}

template <class T>
Node encode(const Auto<T>& value) {
  return value.given ? encode(value.value) : Node::scalar("auto", true);
}

/// A single number is read as a list of one.
template <class N>
std::string decode_numbers(const Node& node, std::vector<N>& value) {
  std::vector<N> parsed;
  const auto take = [&](const Node& item) { return decode(item, parsed.emplace_back()); };
  std::string why = node.is_list() || node.is_null() ? "" : take(node);
  for (const Node& item : node.items) {
    if (!why.empty()) break;
    why = take(item);
  }
  if (!why.empty()) return fmt::format("must be {}; {}", kind_of<std::vector<N>>().words, why);
  value = std::move(parsed);
  return "";
}
inline std::string decode(const Node& node, std::vector<double>& value) {
  return decode_numbers(node, value);
}
inline std::string decode(const Node& node, std::vector<int64_t>& value) {
  return decode_numbers(node, value);
}

template <class N>
std::string decode(const Node& node, std::map<std::string, N>& value) {
  if (!node.is_map())
    return fmt::format("must be {}; is {}", kind_of<std::map<std::string, N>>().words, described(node));
  std::map<std::string, N> parsed;
  for (const Member& member : node.members) {
    const std::string why = decode(member.value, parsed[member.key]);
    if (!why.empty()) return fmt::format("{} {}", shown(member.key), why);
  }
  value = std::move(parsed);
  return "";
}

template <class N>
Node encode_numbers(const std::vector<N>& values) {
  Node list = Node::list({});
  for (const N value : values) list.items.push_back(encode(value));
  return list;
}
inline Node encode(const std::vector<double>& value) {
  return encode_numbers(value);
}
inline Node encode(const std::vector<int64_t>& value) {
  return encode_numbers(value);
}

template <class N>
Node encode(const std::map<std::string, N>& value) {
  Node map = Node::map();
  for (const auto& [key, number] : value) map[key] = encode(number);
  return map;
}

template <NamedEnum E>
std::string decode(const Node& node, E& value) {
  using Names = EnumNames<E>;
  if (!node.is_scalar()) return fmt::format("must be {}; is {}", kind_of<E>().words, described(node));
  const std::string text = lower(node.text);
  auto find = [&](const auto& table) {
    for (const auto& [known, name] : table) {
      if (lower(std::string(name)) == text) {
        value = known;
        return true;
      }
    }
    return false;
  };
  if (find(Names::values)) return "";
  if constexpr (requires { Names::others; }) {
    if (find(Names::others)) return "";
  }
  if constexpr (requires { Names::elsewhere; }) {
    for (const auto& [name, reason] : Names::elsewhere) {
      if (lower(std::string(name)) == text) return fmt::format("{} is not supported: {}", name, reason);
    }
  }
  if constexpr (requires { Names::later; }) {
    for (const std::string_view name : Names::later) {
      if (lower(std::string(name)) == text) return fmt::format("{} is not supported by this version", name);
    }
  }
  const Kind kind = kind_of<E>();
  return fmt::format("must be {}; is '{}'{}", kind.words, shown(node.text), did_you_mean(node.text, kind.choices));
}

template <NamedEnum E>
Node encode(E value) {
  return Node::scalar(name_of(value), true);
}

}  // namespace trainer::config
