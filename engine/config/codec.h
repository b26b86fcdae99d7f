// Between a value of a section and its node in a document, one overload a type.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>

#include "engine/base/edit_distance.h"
#include "engine/config/document.h"
#include "engine/config/names.h"
#include "engine/config/problems.h"
#include "engine/config/scalar.h"

namespace trainer::config {

/// What an option accepts: in words, and as a list where there is one.
struct Kind {
  std::string words;
  std::vector<std::string> choices;
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

/// How a node that is not acceptable is named in a message: "'many'", "a list", "empty".
std::string described(const Node& node);

template <class T>
Kind kind_of();

template <>
inline Kind kind_of<bool>() {
  return {"true or false", {}};
}
template <>
inline Kind kind_of<int64_t>() {
  return {"an integer", {}};
}
template <>
inline Kind kind_of<double>() {
  return {"a number", {}};
}
template <>
inline Kind kind_of<std::string>() {
  return {"text", {}};
}
template <>
inline Kind kind_of<std::vector<std::string>>() {
  return {"a list of texts", {}};
}
template <>
inline Kind kind_of<NamesOrPattern>() {
  return {"a list of names, a regular expression, or all-linear", {}};
}

template <NamedEnum E>
Kind kind_of() {
  Kind kind;
  for (const auto& [value, name] : EnumNames<E>::values) kind.choices.emplace_back(name);
  kind.words = fmt::format("one of {}", fmt::join(kind.choices, ", "));
  return kind;
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
