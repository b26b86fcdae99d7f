#include "engine/config/plan/given_text.h"

#include <limits.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>

#include "engine/base/safe_text.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// NAME of a $NAME in `text` that a shell would have replaced; "" if there is none.
std::string shell_variable(const std::string& text) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const std::string name(begin, std::find_if_not(begin, text.end(), in_name));
    if (!name.empty() && std::getenv(name.c_str()) != nullptr) return name;
  }
  return "";
}

/// What is ambiguous about `node` as the value of `entry`; "" if nothing is.
std::string doubt(const Entry& entry, const Node& node) {
  if (node.is_null() && node.text.empty())
    return entry.children ? "has no keys: write them below it, indented, or leave the line out"
                          : "has no value: write one after the ':', or leave the line out for the default";
  if (!node.is_scalar()) return "";
  const Type type = entry.kind.type;
  std::string meant;  // in digits, or as a boolean
  if (const auto integer = parse_int(node.text); type == Type::kInteger && integer) {
    meant = std::to_string(*integer);
  } else if (type == Type::kNumber && parse_double(node.text)) {
    meant = node.text;
  } else if (const auto truth = parse_bool(node.text); type == Type::kBoolean && truth) {
    meant = *truth ? "true" : "false";
  }
  if (meant.empty()) return "";  // the option's own check reports what is wrong
  if (node.quoted) return fmt::format("is the text '{}', because it is in quotes: write {}", shown(node.text), meant);
  if (type == Type::kInteger && node.text != meant)
    return fmt::format("must be an integer in digits; is {}: write {}", described(node), meant);
  return "";
}

void refuse_doubtful(const Entries& entries, const Node& map, const std::string& prefix, Problems& problems) {
  for (const Member& member : map.members) {
    const auto entry =
        std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.has_key(member.key); });
    if (entry == entries.end() || (prefix.empty() && entry->accelerate)) continue;
    const std::string path = prefix + entry->name;
    const Mark& mark = member.value.is_null() ? member.mark : member.value.mark;
    if (const std::string why = doubt(*entry, member.value); !why.empty())
      problems.add(mark, path, fmt::format("{} {}", path, why));
    else if (entry->children)
      refuse_doubtful(*entry->children, member.value, path + ".", problems);
  }
}

}  // namespace

void refuse_doubtful(const Node& document, Problems& problems) {
  refuse_doubtful(root_table(), document, "", problems);
}

void refuse_secrets(const Node& document, Problems& problems) {
  if (document.is_scalar() && without_secrets(document.text) != document.text)
    problems.add(document.mark, "",
                 "this looks like a secret (a token, a key or a password), which the run's files and logs would show: "
                 "remove it; no option needs one",
                 "no-secrets");
  for (const Node& item : document.items) refuse_secrets(item, problems);
  for (const Member& member : document.members) refuse_secrets(member.value, problems);
}

std::string path_fault(const std::string& text, const std::string& path) {
  constexpr std::size_t kLongest = PATH_MAX - 256;  // leaves room for a file name
  if (path.size() > kLongest)
    return fmt::format("is a path of {} characters, but a path must not have more than {}", path.size(), kLongest);
  for (const std::filesystem::path& part : std::filesystem::path(path))
    if (part.native().size() > NAME_MAX)
      return fmt::format("has a part of {} bytes between slashes, but a name must not have more than {}",
                         part.native().size(), NAME_MAX);
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    return fmt::format(
        "is '{}': a path with a newline or another control character, which programs don't list correctly",
        shown(text));
  if (const std::string name = shell_variable(text); !name.empty())
    return fmt::format("is '{}': write ${{{}}} for the environment variable", shown(text), name);
  return "";
}

}  // namespace trainer::config
