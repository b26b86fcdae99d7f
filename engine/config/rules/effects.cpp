// check_options: the range, support and effect of each single option.
#include <algorithm>

#include "engine/config/rules/rules.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

class Checker {
 public:
  explicit Checker(Draft& draft) : draft_(draft) {}

  void check_all(const Entries& entries, const void* section, const std::string& prefix) {
    auto visit = [&](const std::string& path, const Entry& entry, const void* inner) {
      return entry.foreign == Foreign::kNot ? check(path, entry, inner) : check_foreign(path, entry);
    };
    walk(entries, section, visit, prefix);
  }

 private:
  bool check(const std::string& path, const Entry& entry, const void* section) {
    const bool set = draft_.is_set(path);
    const bool applies = !entry.applies || entry.applies(draft_.config);
    if (set && !entry.children) {
      for (const auto& why : entry.checks) complain(path, why(section));
      const bool idle = entry.is_idle && entry.is_idle(draft_.config);
      const std::string& why = idle ? entry.idle_because : entry.no_effect;
      if (!why.empty() && !is_harmless(entry, entry.write(section)))
        note_no_effect(path, entry.write(section), draft_.mark(path), why);
    }
    if (!applies) {
      const bool asks = entry.children ? entry.find(section) && says_anything(path) : !is_default(entry, section);
      if (set && asks) {
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
    const auto& [_, node] = *given;
    if (asks_nothing(node, entry.harmless)) return false;  // so it needs no message
    if (entry.foreign == Foreign::kNoEffect) {
      note_no_effect(path, node, node.mark, entry.reason);
    } else if (!draft_.problems.about(path)) {
      draft_.problems.add(node.mark, path,
                          fmt::format("{}: {} is not supported: {}", path, shown(text_of(node)), entry.reason));
    }
    return false;
  }

  void complain(const std::string& path, const std::string& why) {
    if (why.empty()) return;
    std::string cause;  // the key that the user wrote, if it is another one
    for (const Note& note : draft_.translated) {
      if (note.option == path) cause = fmt::format(" (because of {}: {})", note.key, shown(note.value));
    }
    draft_.problems.add(draft_.mark(path), path, fmt::format("{} {}{}", path, why, cause));
  }

  /// True if the file has an option of this section, not just its name.
  bool says_anything(const std::string& section) const {
    auto inside = draft_.origins.lower_bound(section + ".");
    return inside != draft_.origins.end() && inside->first.starts_with(section + ".");
  }

  /// Values that request nothing need no warning if they have no effect.
  bool is_default(const Entry& entry, const void* section) const {
    const Node value = entry.write(section);
    return is_harmless(entry, value) || same(value, entry.initial);
  }

  static bool is_harmless(const Entry& entry, const Node& value) {
    const auto& harmless = entry.harmless;
    return value.is_scalar() && std::find(harmless.begin(), harmless.end(), value.text) != harmless.end();
  }

  void note_no_effect(const std::string& path, const Node& value, const Mark& mark, const std::string& reason) {
    draft_.without_effect.push_back({path, text_of(value), to_string(mark), reason});
  }

  Draft& draft_;
};

}  // namespace

bool asks_nothing(const Node& node, const std::vector<std::string>& harmless) {
  if (node.is_null()) return true;
  if (node.is_scalar()) {
    auto is_harmless = [&](const std::string& text) {
      return std::any_of(harmless.begin(), harmless.end(),
                         [&](const std::string& value) { return lower(value) == text; });
    };
    const std::string text = lower(node.text);
    if (text.empty() || text == "none" || is_harmless(text)) return true;
    const auto truth = parse_bool(text);
    if (!truth) return parse_double(text) == 0.0;
    return *truth ? is_harmless("true") : is_harmless("false") || !is_harmless("true");
  }
  if (const Node* enabled = node.find("enabled")) return asks_nothing(*enabled, harmless);
  return std::all_of(node.items.begin(), node.items.end(), [&](const Node& n) { return asks_nothing(n, harmless); }) &&
         std::all_of(node.members.begin(), node.members.end(),
                     [&](const Member& m) { return asks_nothing(m.value, harmless); });
}

void check_options(Draft& draft) {
  Checker(draft).check_all(root_table(), &draft.config, "");
}

void check_section(Draft& draft, const std::string& path) {
  const Place place = find_option(draft.config, path);
  require(place.entry && place.entry->children, "{} is not a section", path);
  check_section(draft, *place.entry->children, place.entry->open(place.section), path + ".");
}

void check_section(Draft& draft, const Entries& table, const void* section, const std::string& prefix) {
  Checker(draft).check_all(table, section, prefix);
}

}  // namespace trainer::config
