#include "engine/config/given_text.h"

#include <limits.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "engine/base/safe_text.h"

namespace trainer::config {
namespace {

/// NAME of a $NAME in `text` that a shell would have replaced; "" when there is none.
std::string shell_variable(const std::string& text) {
  const auto in_name = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = text.find('$'); at != std::string::npos; at = text.find('$', at + 1)) {
    const auto begin = text.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    const std::string name(begin, std::find_if_not(begin, text.end(), in_name));
    if (!name.empty() && std::getenv(name.c_str()) != nullptr) return name;
  }
  return "";
}

}  // namespace

void refuse_secrets(const Node& document, Problems& problems) {
  if (document.is_scalar() && without_secrets(document.text) != document.text)
    problems.add(document.mark, "",
                 "this looks like a secret (a token, a key or a password), which the run's files and logs would show: "
                 "take it out; nothing here needs one",
                 "no-secrets");
  for (const Node& item : document.items) refuse_secrets(item, problems);
  for (const Member& member : document.members) refuse_secrets(member.value, problems);
}

std::string path_fault(const std::string& text, const std::string& path) {
  constexpr std::size_t kLongest = PATH_MAX - 256;  // and a file's name below it
  if (path.size() > kLongest)
    return fmt::format("is a path of {} characters, and no path may have more than {}", path.size(), kLongest);
  if (std::any_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }))
    return fmt::format("is '{}': a path with a line end or another control character, which no program lists rightly",
                       shown(text));
  if (const std::string name = shell_variable(text); !name.empty())
    return fmt::format("is '{}': write ${{{}}} for the variable of the environment", shown(text), name);
  return "";
}

}  // namespace trainer::config
