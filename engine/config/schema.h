// Declares an option once. Reading, writing, flags, --set, the wizard, the reference page and the origins walk the same
// tables, so an option cannot exist in one of them and be missing from another.
#pragma once

#include <deque>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/config/bound.h"
#include "engine/config/codec.h"
#include "engine/config/sections.h"

namespace trainer::config {

struct Entry;
using Entries = std::vector<Entry>;

/// Keys of other programs that no field of ours holds.
enum class Foreign {
  kNot,          // an option of ours
  kNoEffect,     // accepted, and reported as having no effect
  kUnsupported,  // refused when it asks for something
  kTranslated,   // engine/config/translate turns it into options of ours
};

/// Everything known about one option, with types erased. `void*` is the section struct.
struct Entry {
  std::string name;
  std::string help;
  std::string question;              // the wizard's, if it asks for this option
  std::vector<std::string> aliases;  // further keys that are read
  std::string variable;              // the environment variable that sets it
  std::optional<std::string> flag;   // the flag of `trainer launch` that sets it, if not --name; "": none
  Kind kind;
  bool accelerate = false;   // belongs to Accelerate's part of the file
  bool path = false;         // relative to the file it is written in
  bool works_here = false;   // or, if missing there, to the working folder
  bool hub = false;          // or a name on the Hugging Face Hub
  bool hub_dataset = false;  // or the name of a dataset there
  bool omitted = false;      // its default is not written into files

  std::string condition;                       // "optim is sgd": otherwise it has no effect
  std::function<bool(const Config&)> applies;  // null: always
  std::string no_effect;                       // why it never has an effect
  std::string idle_because;                    // why it has no effect in some runs
  std::function<bool(const Config&)> is_idle;  // these; null: none
  std::vector<std::string> harmless;           // values that request nothing and draw no warning

  std::function<std::string(const Node&, void*)> read;  // "" or why not
  std::function<Node(const void*)> write;
  Node initial;                                                 // its default
  std::vector<std::function<std::string(const void*)>> checks;  // "" or why its value is out of range
  std::vector<Bound> bounds;                                    // what the checks require of a number
  std::function<std::string(const void*)> unsupported;          // "" or what this version lacks
  std::function<std::vector<std::string*>(void*)> texts;        // the strings in it
  std::vector<std::string> keywords;                            // texts that are not paths

  // A sub-section.
  const Entries* children = nullptr;
  std::function<void*(void*)> open;              // the member, created if it is optional and absent
  std::function<const void*(const void*)> find;  // the member, or null if it is absent
  std::function<void(void*)> clear;              // optional sections: makes it absent

  // A foreign key.
  Foreign foreign = Foreign::kNot;
  std::optional<Node> written;  // what Accelerate's wizard writes
  std::string reason;           // why it has no effect or is refused, and what to do instead

  bool has_key(const std::string& key) const;
};

/// Typed builder of an Entry, used while its table is written.
template <class S, class T>
class Field {
 public:
  using Member = T S::*;

  Field(std::string name, Member member) : member_(member) { entry.name = std::move(name); }

  Field&& help(std::string text) && { return set(entry.help, std::move(text)); }
  /// Makes the wizard ask for this option.
  Field&& ask(std::string question) && { return set(entry.question, std::move(question)); }
  /// The key is in the part of the file that Accelerate reads.
  Field&& accelerate() && { return set(entry.accelerate, true); }
  /// The environment variable that sets it.
  Field&& env(std::string name) && { return set(entry.variable, std::move(name)); }
  /// The flag that sets it, if not the key ("--name"); "" for none.
  Field&& flag(std::string name) && {
    entry.flag = std::move(name);
    return std::move(*this);
  }
  /// The text is a path, relative to the file it is written in.
  Field&& path() && { return set(entry.path, true); }
  /// A path that other programs resolve against the working folder: used if the path doesn't exist relative to the file
  /// it is written in.
  Field&& path_or_here() && {
    entry.path = entry.works_here = true;
    return std::move(*this);
  }
  /// A path, or a name on the Hugging Face Hub that is in this machine's Hub cache.
  Field&& path_or_hub_name() && {
    entry.path = entry.hub = true;
    return std::move(*this);
  }
  /// A path, or the name of a dataset on the Hugging Face Hub that is in this machine's Hub cache.
  Field&& path_or_hub_dataset() && {
    entry.path = entry.hub_dataset = true;
    return std::move(*this);
  }
  /// Its default isn't written into files: Accelerate leaves it out, or writing it would contradict another option.
  Field&& omitted() && { return set(entry.omitted, true); }
  /// Accepted and checked, but never has an effect.
  Field&& no_effect(std::string reason) && { return set(entry.no_effect, std::move(reason)); }

  /// Accepted and checked, but has no effect in some runs, without a warning.
  Field&& no_effect_if(std::function<bool(const Config&)> idle, std::string reason) && {
    entry.is_idle = std::move(idle);
    return set(entry.idle_because, std::move(reason));
  }

  /// Accepts another key in files.
  Field&& alias(std::string name) && {
    entry.aliases.push_back(std::move(name));
    return std::move(*this);
  }

  /// Has an effect only under this condition: otherwise the wizard skips it and a file that sets it draws a warning.
  /// The reference page lists the condition.
  Field&& when(std::string condition, std::function<bool(const Config&)> applies) && {
    entry.condition = std::move(condition);
    entry.applies = std::move(applies);
    return std::move(*this);
  }

  /// Values that draw no warning when the option has no effect.
  Field&& harmless(std::vector<std::string> values) && {
    entry.harmless = std::move(values);
    return std::move(*this);
  }

  // "auto" satisfies every bound.
  Field&& at_least(double low) && { return bound({Bound::Operator::kAtLeast, low}); }
  Field&& at_most(double high) && { return bound({Bound::Operator::kAtMost, high}); }
  Field&& above(double low) && { return bound({Bound::Operator::kAbove, low}); }
  Field&& below(double high) && { return bound({Bound::Operator::kBelow, high}); }

  /// Texts: the accepted ones, in any case; booleans in any spelling if `choices` has true or false. If "" is one of
  /// them, the text can be empty. `also` describes what else is accepted ("a folder"); empty: nothing else.
  Field&& one_of(std::vector<std::string> choices, std::string also = "") &&;

  /// The values of an enum that this version supports; the others are refused, unless the option has no effect anyway.
  Field&& supported(std::vector<T> values, std::string reason = "") && {
    entry.kind.choices.clear();
    for (const T& value : values) entry.kind.choices.push_back(name_of(value));
    entry.unsupported = [values, reason, member = member_](const void* section) -> std::string {
      const T& value = static_cast<const S*>(section)->*member;
      std::vector<std::string> names;
      for (const T& known : values) {
        if (known == value) return "";
        names.push_back(name_of(known));
      }
      return fmt::format("{} is not supported by this version{}; {} is", name_of(value),
                         reason.empty() ? "" : " (" + reason + ")", fmt::join(names, " or "));
    };
    return std::move(*this);
  }

  Entry entry;

 private:
  template <class V>
  Field&& set(V& place, V value) {
    place = std::move(value);
    return std::move(*this);
  }
  Field&& set(std::string& place, std::string value) {
    place = std::move(value);
    return std::move(*this);
  }
  Field&& bound(Bound bound) {
    entry.bounds.push_back(bound);
    entry.checks.push_back([bound, member = member_](const void* section) -> std::string {
      const auto* number = number_in(static_cast<const S*>(section)->*member);
      if (!number || bound.holds(static_cast<double>(*number))) return "";
      return fmt::format("must be {}; is {}", to_string(bound), *number);
    });
    return std::move(*this);
  }
  template <class N>
  static const N* number_in(const N& value) {
    return &value;
  }
  template <class N>
  static const N* number_in(const Auto<N>& value) {
    return value.given ? &value.value : nullptr;
  }

  Member member_;
};

/// An option held by `member`.
template <class S, class T>
Field<S, T> option(std::string name, T S::*member) {
  Field<S, T> field(std::move(name), member);
  field.entry.kind = kind_of<T>();
  field.entry.read = [member](const Node& node, void* section) {
    return decode(node, static_cast<S*>(section)->*member);
  };
  field.entry.write = [member](const void* section) { return encode(static_cast<const S*>(section)->*member); };
  field.entry.texts = [member](void* section) -> std::vector<std::string*> {
    T& value = static_cast<S*>(section)->*member;
    std::vector<std::string*> texts;
    if constexpr (std::is_same_v<T, std::string>) texts.push_back(&value);
    if constexpr (std::is_same_v<T, std::vector<std::string>>) {
      for (std::string& text : value) texts.push_back(&text);
    }
    return texts;
  };
  return field;
}

/// A sub-section that is always present.
template <class S, class T>
Field<S, T> section(std::string name, T S::*member, const Entries& children) {
  Field<S, T> field(std::move(name), member);
  field.entry.children = &children;
  field.entry.open = [member](void* section) -> void* { return &(static_cast<S*>(section)->*member); };
  field.entry.find = [member](const void* section) -> const void* {
    return &(static_cast<const S*>(section)->*member);
  };
  return field;
}

/// A sub-section that is absent unless the file has it.
template <class S, class T>
Field<S, std::optional<T>> section(std::string name, std::optional<T> S::*member, const Entries& children) {
  Field<S, std::optional<T>> field(std::move(name), member);
  field.entry.children = &children;
  field.entry.open = [member](void* section) -> void* {
    auto& place = static_cast<S*>(section)->*member;
    return place ? &*place : &place.emplace();
  };
  field.entry.find = [member](const void* section) -> const void* {
    const auto& place = static_cast<const S*>(section)->*member;
    return place ? &*place : nullptr;
  };
  field.entry.clear = [member](void* section) { (static_cast<S*>(section)->*member).reset(); };
  return field;
}

/// Free-form keys, held as JSON text.
template <class S>
Field<S, std::string> free_form(std::string name, std::string S::*member) {
  Field<S, std::string> field(std::move(name), member);
  make_json(field.entry, [member](void* section) -> std::string& { return static_cast<S*>(section)->*member; });
  return field;
}
void make_json(Entry& entry, std::function<std::string&(void*)> text);

/// A comma-separated text, as Accelerate writes lists; a YAML list is read too.
template <class S>
Field<S, std::vector<std::string>> comma_list(std::string name, std::vector<std::string> S::*member) {
  auto field = option(std::move(name), member);
  make_comma_list(field.entry,
                  [member](void* section) -> std::vector<std::string>& { return static_cast<S*>(section)->*member; });
  return field;
}
void make_comma_list(Entry& entry, std::function<std::vector<std::string>&(void*)> list);

/// A key that no field of ours holds. `reason`: why it has no effect or is refused, and what to do instead; it
/// completes the sentence "<key> has no effect: …" or "<key> is not supported: …".
struct ForeignKey {
  Entry entry;
  ForeignKey&& written(Node value) && {
    entry.written = std::move(value);
    return std::move(*this);
  }
  ForeignKey&& accelerate() && {
    entry.accelerate = true;
    return std::move(*this);
  }
  ForeignKey&& alias(std::string name) && {
    entry.aliases.push_back(std::move(name));
    return std::move(*this);
  }
  /// Values that request nothing, in addition to false, 0, none and an empty value. If true is one of them, false
  /// requests something unless it is one of them too.
  ForeignKey&& harmless(std::vector<std::string> values) && {
    entry.harmless = std::move(values);
    return std::move(*this);
  }
  ForeignKey&& flag(std::string name) && {
    entry.flag = std::move(name);
    return std::move(*this);
  }
  /// A text is a path, relative to the file it is written in.
  ForeignKey&& path() && {
    entry.path = true;
    return std::move(*this);
  }
  ForeignKey&& path_or_here() && {
    entry.path = entry.works_here = true;
    return std::move(*this);
  }
  ForeignKey&& env(std::string name) && {
    entry.variable = std::move(name);
    return std::move(*this);
  }
  /// The type of its value; any type by default. Checked even if the key has no effect.
  template <class T>
  ForeignKey&& of() && {
    entry.kind = kind_of<T>();
    entry.read = [](const Node& node, void*) {
      T value{};
      return decode(node, value);
    };
    return std::move(*this);
  }
  /// `refused`: other programs' values that translate() refuses with the reason.
  ForeignKey&& one_of(std::vector<std::string> choices, std::vector<std::string> refused = {}) &&;
};
ForeignKey no_effect(std::string name, std::string reason);
ForeignKey unsupported(std::string name, std::string reason);
ForeignKey translated(std::string name, std::string help);
/// A section in which every key is foreign.
ForeignKey group(std::string name, std::string help, const Entries& children);

void restrict_texts(Entry& entry, std::vector<std::string> choices, std::string also);

template <class S, class T>
Field<S, T>&& Field<S, T>::one_of(std::vector<std::string> choices, std::string also) && {
  restrict_texts(entry, std::move(choices), std::move(also));
  return std::move(*this);
}

/// Sections that are always held in a std::optional: an optional converts both from AnyField and from its value, which
/// would be ambiguous.
template <class T>
inline constexpr bool kOptional = false;
template <>
inline constexpr bool kOptional<LoraConfig> = true;
template <>
inline constexpr bool kOptional<DpoConfig> = true;
template <>
inline constexpr bool kOptional<DeepspeedConfig> = true;
template <>
inline constexpr bool kOptional<MegatronConfig> = true;
template <>
inline constexpr bool kOptional<ParallelismConfig> = true;

/// Converts to any field of an aggregate, to count the fields.
struct AnyField {
  template <class T>
  requires(!kOptional<T>) operator T() const;
};

template <class S, class... Fields>
constexpr std::size_t count_fields() {
  if constexpr (requires { S{Fields{}..., AnyField{}}; }) {
    return count_fields<S, Fields..., AnyField>();
  } else {
    return sizeof...(Fields);
  }
}

/// The table of a section whose keys are all foreign.
template <class... Items>
Entries foreign_table(Items... items) {
  static_assert((std::is_same_v<Items, ForeignKey> && ...));
  Entries entries;
  entries.reserve(sizeof...(Items));
  (entries.push_back(std::move(items.entry)), ...);
  return entries;
}

/// The entries of all `parts`, one table.
inline Entries joined(std::initializer_list<Entries> parts) {
  Entries all;
  for (const Entries& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

/// The entries of some fields of section S, with their defaults.
template <class S, class... Items>
Entries entries_of(Items... items) {
  Entries entries;
  entries.reserve(sizeof...(Items));
  (entries.push_back(std::move(items.entry)), ...);
  const S defaults{};
  for (Entry& entry : entries) {
    if (entry.write) entry.initial = entry.write(&defaults);
  }
  return entries;
}

/// The table of section S. A field of S without an entry does not compile.
template <class S, class... Items>
Entries table(Items... items) {
  constexpr std::size_t foreign = (std::size_t{0} + ... + std::size_t{std::is_same_v<Items, ForeignKey>});
  static_assert(sizeof...(Items) - foreign == count_fields<S>(), "every field of a section has one entry in its table");
  return entries_of<S>(std::move(items)...);
}

}  // namespace trainer::config
