#include "engine/config/reader.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "engine/config/ds_config.h"
#include "engine/config/given_text.h"
#include "engine/config/hub_folder.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// The sections that have an option called `key`; the ones that other programs' keys stand in only when no other has.
std::vector<std::string> sections_with(const std::string& key) {
  std::vector<std::string> ours, foreign;
  each_entry(root_table(), [&](const std::string& path, const Entry& entry) {
    if (!entry.has_key(key) || entry.children) return;
    (entry.foreign == Foreign::kNot ? ours : foreign).push_back(parent_of(path));
  });
  return ours.empty() ? foreign : ours;
}

/// The option in `entries` that was meant by `key`: the same with the section's prefix, or one that is spelt nearly so.
std::string meant_by(const std::string& key, const Entries& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (entry.name.ends_with("_" + key)) return entry.name;
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return nearest(key, names);
}

/// Where DeepSpeed's own file has `key` ("zero_optimization.overlap_comm"), or "".
std::string in_ds_config(const std::string& key) {
  std::string found;
  each_entry(ds_config_table(), [&](const std::string& path, const Entry& entry) {
    if (found.empty() && entry.has_key(key)) found = path;
  });
  return found;
}

std::string unknown_key(const std::string& path, const std::string& key, const std::string& meant) {
  if (path.starts_with("deepspeed_config.") && meant.empty()) {
    if (const std::string place = in_ds_config(key); !place.empty()) {
      return fmt::format("{} belongs into the ds_config.json that deepspeed_config_file names, as {}", path, place);
    }
  }
  if (key == "<<") return "merge keys (<<) are not supported: write the keys out";
  const auto sections = sections_with(key);
  const bool prefixed = meant.ends_with("_" + key);
  if (sections.size() == 1 && !prefixed) {
    return fmt::format("{} belongs {}", shown(path),
                       sections[0].empty() ? "at the top of the file, outside of any section" : "under " + sections[0]);
  }
  if (!meant.empty()) return fmt::format("{} is not an option (did you mean '{}'?)", shown(path), meant);
  if (!sections.empty()) {
    return fmt::format("{} is not an option here; {} have one of that name", shown(path), fmt::join(sections, ", "));
  }
  return fmt::format("{} is not an option", shown(path));
}

class Reader {
 public:
  Reader(const std::filesystem::path& folder, Draft& draft) : folder_(folder), draft_(draft) {}

  void read(const Entries& entries, const Node& map, void* section, const std::string& prefix) {
    std::set<const Entry*> seen;
    for (const Member& member : map.members) {
      const std::string path = prefix + member.key;
      auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.has_key(member.key); });
      if (entry == entries.end()) {
        const std::string meant = meant_by(member.key, entries);
        draft_.problems.add(member.mark, path, unknown_key(path, member.key, meant));
        if (!meant.empty()) draft_.problems.mention(prefix + meant);
      } else if (!seen.insert(&*entry).second) {
        draft_.problems.add(member.mark, prefix + entry->name,
                            fmt::format("{} is the same option as {}, which is given too", path, entry->name));
      } else {
        read_entry(*entry, member, section, prefix + entry->name);
      }
    }
  }

 private:
  void read_entry(const Entry& entry, const Member& member, void* section, const std::string& path) {
    const Node& node = member.value;
    if (entry.foreign != Foreign::kNot) {
      read_foreign(entry, member, path);
    } else if (node.is_null()) {  // as if it were not written; what an earlier document said goes too
      if (entry.clear) entry.clear(section);
    } else if (entry.children) {
      read_section(entry, node, section, path);
    } else {
      read_option(entry, node, section, path);
    }
  }

  void read_foreign(const Entry& entry, const Member& member, const std::string& path) {
    const std::string why = entry.read && !member.value.is_null() ? entry.read(member.value, nullptr) : "";
    if (!why.empty()) draft_.problems.add(member.value.mark, path, fmt::format("{} {}", path, why));
    Node& kept = draft_.foreign[path] = member.value;
    if (entry.foreign != Foreign::kTranslated) kept.mark = member.mark;
    const bool named = entry.path && kept.is_scalar() && lower(kept.text) != "none" && parse_bool(kept.text) != false;
    if (named && !folder_.empty()) kept.text = absolute_path(kept.text, folder_);
  }

  void read_section(const Entry& entry, const Node& node, void* section, const std::string& path) {
    if (!node.is_map()) {
      draft_.problems.add(node.mark, path, fmt::format("{} must be a group of keys; is {}", path, described(node)));
      return;
    }
    draft_.origins[path] = node.mark;
    read(*entry.children, node, entry.open(section), path + ".");
  }

  void read_option(const Entry& entry, const Node& node, void* section, const std::string& path) {
    if (const std::string why = entry.read(node, section); !why.empty()) {
      draft_.problems.add(node.mark, path, fmt::format("{} {}", path, why));
      return;
    }
    draft_.origins[path] = node.mark;
    if (!entry.path || folder_.empty()) return;
    for (std::string* text : entry.texts(section)) {
      const auto& words = entry.keywords;
      if (std::find(words.begin(), words.end(), *text) != words.end()) continue;
      const std::string absolute = absolute_path(*text, folder_);
      if (const std::string why = path_fault(*text, absolute); !why.empty()) {
        draft_.problems.add(node.mark, path, fmt::format("{} {}", path, why));
        return;
      }
      const std::string of_hub = entry.hub && !std::filesystem::exists(absolute) ? hub_folder(*text) : "";
      *text = of_hub.empty() ? absolute : of_hub;
    }
  }

  const std::filesystem::path& folder_;
  Draft& draft_;
};

/// `text` with its ${…} replaced; says why that can't be done in `why`.
std::string expanded(const std::string& text, std::string& why) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = text.find("${", at);
    if (start == std::string::npos) return out + text.substr(at);
    out += text.substr(at, start - at);
    if (!out.empty() && out.back() == '$') {  // $${ is how a text says ${
      out += "{";
      at = start + 2;
      continue;
    }
    const std::size_t end = text.find('}', start);
    if (end == std::string::npos) {
      why = "'${' is never closed by '}'; a text that means it writes '$${'";
      return text;
    }
    const std::string inside = text.substr(start + 2, end - start - 2);
    const std::size_t fallback = inside.find(":-");
    const std::string name = inside.substr(0, fallback);
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    const bool given = value && (*value || fallback == std::string::npos);
    if (!given && fallback == std::string::npos) {
      why = fmt::format("the environment variable '{}' is not set; ${{{}:-default}} gives it a default", shown(name),
                        shown(name));
      return text;
    }
    out += given ? value : inside.substr(fallback + 2);
    at = end + 1;
  }
  return out;
}

/// `document` with the greatest number in the place of a range of machines ("1:4"), which is kept with the foreign keys
/// for translate_machines().
Node without_range(Node document, Draft& draft) {
  const std::string key = "num_machines";
  if (!document.is_map()) return document;
  for (Member& member : document.members) {
    if (member.key != key) continue;
    draft.foreign.erase(key);  // what an earlier document said
    Node& node = member.value;
    const std::size_t colon = node.is_scalar() ? node.text.find(':') : std::string::npos;
    if (colon == std::string::npos) continue;
    draft.foreign[key] = node;
    const std::string most = node.text.substr(colon + 1);
    if (parse_int(node.text.substr(0, colon)) && parse_int(most)) node.text = most;
  }
  return document;
}

}  // namespace

Mark Draft::mark(const std::string& path) const {
  auto it = origins.find(path);
  return it == origins.end() ? Mark() : it->second;
}

void apply(const Node& document, const std::filesystem::path& folder, Draft& draft) {
  apply(without_range(document, draft), folder, root_table(), &draft.config, "", draft);
}

void apply(const Node& document, const std::filesystem::path& folder, const Entries& table, void* section,
           const std::string& prefix, Draft& draft) {
  if (document.is_null()) return;
  if (!document.is_map()) {
    const bool unspaced = document.is_scalar() && document.text.find(':') != std::string::npos;
    draft.problems.add(document.mark, "",
                       fmt::format("must be lines of 'key: value'; is {}{}", described(document),
                                   unspaced ? ": a space is missing behind ':'" : ""));
    draft.problems.throw_if_any();
  }
  Reader(folder, draft).read(table, document, section, prefix);
}

void expand_environment(Node& node, Problems& problems) {
  if (node.is_scalar() && node.text.find("${") != std::string::npos) {
    std::string why;
    node.text = expanded(node.text, why);
    if (!why.empty()) problems.add(node.mark, "", why);
  }
  for (Node& item : node.items) expand_environment(item, problems);
  for (Member& member : node.members) expand_environment(member.value, problems);
}

std::string absolute_path(const std::string& text, const std::filesystem::path& folder) {
  if (text.empty()) return text;
  std::filesystem::path path = text;
  const char* home = std::getenv("HOME");
  if (home && (text == "~" || text.starts_with("~/"))) path = home + text.substr(1);
  path = std::filesystem::absolute(folder / path).lexically_normal();
  return path.has_filename() || path == path.root_path() ? path.string() : path.parent_path().string();
}

void walk(const Entries& entries, const void* section, const Visit& visit, const std::string& prefix) {
  for (const Entry& entry : entries) {
    const std::string path = prefix + entry.name;
    if (!visit(path, entry, section) || !entry.children) continue;
    if (const void* child = entry.find(section)) walk(*entry.children, child, visit, path + ".");
  }
}

void each_entry(const Entries& entries, const std::function<void(const std::string&, const Entry&)>& visit,
                const std::string& prefix) {
  for (const Entry& entry : entries) {
    visit(prefix + entry.name, entry);
    if (entry.children) each_entry(*entry.children, visit, prefix + entry.name + ".");
  }
}

Place find_option(Config& config, const std::string& path) {
  return find_option(root_table(), &config, path);
}

Place find_option(const Entries& table, void* section, const std::string& path) {
  const Entries* entries = &table;
  for (std::size_t start = 0; start <= path.size();) {
    const std::size_t end = std::min(path.find('.', start), path.size());
    const std::string key = path.substr(start, end - start);
    auto entry = std::find_if(entries->begin(), entries->end(), [&](const Entry& e) { return e.has_key(key); });
    if (entry == entries->end()) return {};
    if (end == path.size()) return {&*entry, section};
    if (!entry->children) return {};
    section = entry->open(section);
    entries = entry->children;
    start = end + 1;
  }
  return {};
}

}  // namespace trainer::config
