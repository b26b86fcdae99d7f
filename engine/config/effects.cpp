// check_options: range, support and effect of each option by itself.
#include <algorithm>

#include "engine/config/rules.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// True for values that ask for nothing: nothing at all, false, 0, none, and those in `harmless`.
bool asks_nothing(const Node& node, const std::vector<std::string>& harmless) {
  if (node.is_null()) return true;
  if (node.is_scalar()) {
    const std::string text = lower(node.text);
    if (text.empty() || text == "none" || parse_bool(text) == false) return true;
    return std::any_of(harmless.begin(), harmless.end(),
                       [&](const std::string& value) { return lower(value) == text; });
  }
  return std::all_of(node.items.begin(), node.items.end(), [&](const Node& n) { return asks_nothing(n, harmless); }) &&
         std::all_of(node.members.begin(), node.members.end(),
                     [&](const Member& m) { return asks_nothing(m.value, harmless); });
}

class Checker {
 public:
  explicit Checker(Draft& draft) : draft_(draft) {}

  void run() {
    walk(root_table(), &draft_.config, [&](const std::string& path, const Entry& entry, const void* section) {
      return entry.foreign == Foreign::kNot ? check(path, entry, section) : check_foreign(path, entry);
    });
    if (without_effect_.empty()) return;
    draft_.warnings.push_back(
        fmt::format("{}: these keys have no effect here: {}", source_, fmt::join(without_effect_, ", ")));
  }

 private:
  bool check(const std::string& path, const Entry& entry, const void* section) {
    const bool set = draft_.is_set(path);
    const bool applies = !entry.applies || entry.applies(draft_.config);
    if (set && !entry.children) {
      for (const auto& why : entry.checks) complain(path, why(section));
      if (!entry.no_effect.empty() && !is_harmless(entry, entry.write(section)))
        note_no_effect(path, draft_.mark(path));
    }
    if (!applies) {
      if (set && !is_default(entry, section)) {
        draft_.warnings.push_back(
            fmt::format("{}: {} has no effect unless {}", to_string(draft_.mark(path)), path, entry.condition));
      }
      return false;
    }
    if (entry.unsupported) complain(path, entry.unsupported(section));
    return true;
  }

  bool check_foreign(const std::string& path, const Entry& entry) {
    auto given = draft_.foreign.find(path);
    if (given == draft_.foreign.end() || entry.foreign == Foreign::kTranslated) return false;
    const bool asks = !asks_nothing(given->second, entry.harmless);
    if (asks && entry.foreign == Foreign::kUnsupported) {
      draft_.problems.add(given->second.mark, path,
                          fmt::format("{} is not supported by this version{}", path,
                                      entry.instead.empty() ? "" : "; " + entry.instead));
    } else {
      note_no_effect(path, given->second.mark);
    }
    return false;
  }

  void complain(const std::string& path, const std::string& why) {
    if (!why.empty()) draft_.problems.add(draft_.mark(path), path, fmt::format("{} {}", path, why));
  }

  /// Values that ask for nothing need no warning where they have no effect.
  bool is_default(const Entry& entry, const void* section) const {
    if (entry.children) return false;
    const Node value = entry.write(section);
    return is_harmless(entry, value) || same(value, entry.initial);
  }

  static bool is_harmless(const Entry& entry, const Node& value) {
    const auto& harmless = entry.harmless;
    return value.is_scalar() && std::find(harmless.begin(), harmless.end(), value.text) != harmless.end();
  }

  void note_no_effect(const std::string& path, const Mark& mark) {
    without_effect_.push_back(path.substr(path.rfind('.') + 1));
    if (source_.empty() && mark.source) source_ = *mark.source;
  }

  Draft& draft_;
  std::vector<std::string> without_effect_;
  std::string source_;
};

}  // namespace

void check_options(Draft& draft) {
  Checker(draft).run();
}

}  // namespace trainer::config
