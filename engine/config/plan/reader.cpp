#include "engine/config/plan/reader.h"

#include <algorithm>
#include <cstdlib>
#include <set>

#include "engine/base/edit_distance.h"
#include "engine/base/files.h"
#include "engine/config/ds_config.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/plan/given_text.h"
#include "engine/config/plan/inline_template.h"
#include "engine/config/tables.h"
#include "engine/config/translate/losses_of_pairs.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

std::string parent_of(const std::string& path) {
  const auto dot = path.rfind('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

/// The sections that have an option called `key`; sections with a foreign key of that name only if no option has it.
std::vector<std::string> sections_with(const std::string& key) {
  std::vector<std::string> ours, foreign;
  each_entry(root_table(), [&](const std::string& path, const Entry& entry) {
    if (!entry.has_key(key) || entry.children) return;
    (entry.foreign == Foreign::kNot ? ours : foreign).push_back(parent_of(path));
  });
  return ours.empty() ? foreign : ours;
}

/// The option in `entries` that `key` probably means: the same name with the section's prefix, or a similar spelling.
std::string meant_by(const std::string& key, const Entries& entries) {
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (entry.name.ends_with("_" + key)) return entry.name;
    names.push_back(entry.name);
    names.insert(names.end(), entry.aliases.begin(), entry.aliases.end());
  }
  return nearest(key, names);
}

/// Where DeepSpeed's file has `key` ("zero_optimization.overlap_comm"), or "".
std::string in_ds_config(const std::string& key) {
  std::string found;
  each_entry(ds_config_table(), [&](const std::string& path, const Entry& entry) {
    if (found.empty() && entry.has_key(key)) found = path;
  });
  return found;
}

/// Why the program that reads the section at `prefix` ignores `key`; "" if it does not ignore it, or if `key` is a
/// misspelling of `meant`.
std::string ignored_by_peer(const std::string& prefix, const std::string& key, const std::string& meant) {
  const std::string place = in_ds_config(key);
  if (prefix == "deepspeed_config." && !place.empty() && !meant.ends_with("_" + key))
    return fmt::format("Accelerate reads it only in a ds_config.json, as {}, and ignores it here", place);
  const bool ignores = prefix == "ds_config." || prefix == "ds_config.fp16." || prefix == "ds_config.bf16." ||
                       prefix == "ds_config.pipeline.";
  constexpr std::size_t kMisspelled = 2;
  if (!ignores || (!meant.empty() && (meant.ends_with("_" + key) || edit_distance(key, meant) <= kMisspelled)))
    return "";
  if (place.empty()) return "DeepSpeed has no such key here, and ignores it";
  return fmt::format("DeepSpeed reads it as {}, and ignores it here", place);
}

std::string unknown_key(const std::string& path, const std::string& key, const std::string& meant) {
  if (key == "<<") return "merge keys (<<) are not supported: write the keys out";
  const bool of_file = !path.starts_with("ds_config.");  // our sections are in another file
  const auto sections = of_file ? sections_with(key) : std::vector<std::string>{};
  const bool prefixed = meant.ends_with("_" + key);
  if (sections.size() == 1 && !prefixed) {
    return fmt::format("{} belongs {}", shown(path),
                       sections[0].empty() ? "at the top of the file, outside any section" : "under " + sections[0]);
  }
  if (!meant.empty()) return fmt::format("{} is not an option (did you mean '{}'?)", shown(path), meant);
  if (!sections.empty()) {
    return fmt::format("{} is not an option here; {} have one of that name", shown(path), fmt::join(sections, ", "));
  }
  if (const std::string place = of_file ? "" : in_ds_config(key); !place.empty())
    return fmt::format("{} is not an option here; {} is", shown(path), place);
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
        if (const std::string why = ignored_by_peer(prefix, member.key, meant); !why.empty()) {
          note_no_effect(path, member.value, member.mark, why);
          continue;
        }
        draft_.problems.add(member.mark, path, unknown_key(path, member.key, meant));
        if (!meant.empty()) draft_.problems.mention(prefix + meant);
      } else if (!seen.insert(&*entry).second) {
        draft_.problems.add(member.mark, prefix + entry->name,
                            fmt::format("{} is the same option as {}, which is also given", path, entry->name));
      } else {
        read_entry(*entry, member, section, prefix + entry->name);
      }
    }
  }

 private:
  void note_no_effect(const std::string& path, const Node& node, const Mark& mark, const std::string& why) {
    draft_.without_effect.push_back({path, text_of(node), to_string(mark), why});
  }

  void read_entry(const Entry& entry, const Member& member, void* section, const std::string& path) {
    const Node& node = member.value;
    if (entry.foreign != Foreign::kNot) {
      read_foreign(entry, member, path);
    } else if (node.is_null()) {  // as if it were not written; discards an earlier document's section too
      if (entry.clear) entry.clear(section);
    } else if (entry.children) {
      read_section(entry, node, section, path);
    } else {
      read_option(entry, node, section, path);
    }
  }

  void read_foreign(const Entry& entry, const Member& member, const std::string& path) {
    const std::string why = entry.read && !member.value.is_null() ? entry.read(member.value, nullptr) : "";
    const bool counts = entry.foreign != Foreign::kNoEffect;  // no-effect keys accept any value
    if (!why.empty() && counts) draft_.problems.add(member.value.mark, path, fmt::format("{} {}", path, why));
    Node& kept = draft_.foreign[path] = member.value;
    if (entry.foreign != Foreign::kTranslated) kept.mark = member.mark;
    const bool named = entry.path && kept.is_scalar() && lower(kept.text) != "none" && parse_bool(kept.text) != false;
    if (named && !folder_.empty()) kept.text = path_in(entry, kept.text, kept.mark, path);
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
      if (!entry.no_effect.empty())
        note_no_effect(path, node, node.mark, entry.no_effect);
      else
        draft_.problems.add(node.mark, path, fmt::format("{} {}", path, why));
      return;
    }
    draft_.origins[path] = node.mark;
    if (!entry.path || folder_.empty()) return;
    for (std::string* text : entry.texts(section)) {
      const auto& words = entry.keywords;
      if (std::find(words.begin(), words.end(), *text) != words.end() || is_inline_template(*text)) continue;
      const std::string absolute = path_in(entry, *text, node.mark, path);
      if (const std::string why = path_fault(*text, absolute); !why.empty()) {
        draft_.problems.add(node.mark, path, fmt::format("{} {}", path, why));
        return;
      }
      const std::string of_hub = hub_folder_of(entry, *text, absolute);
      *text = of_hub.empty() ? absolute : of_hub;
    }
  }

  /// The folder in the Hub's cache of a name that is no path; "" for others.
  static std::string hub_folder_of(const Entry& entry, const std::string& text, const std::string& absolute) {
    std::error_code ignored;
    if ((!entry.hub && !entry.hub_dataset) || fs::exists(absolute, ignored)) return "";
    return hub_folder(text, entry.hub ? HubKind::kModel : HubKind::kDataset);
  }

  /// `text` as an absolute path: relative to the file it is written in or, for some options, to the working folder.
  std::string path_in(const Entry& entry, const std::string& text, const Mark& mark, const std::string& path) {
    const std::string beside = absolute_path(text, folder_);
    std::error_code none;
    const fs::path working = fs::current_path(none);
    if (!entry.works_here || none) return beside;
    const std::string here = absolute_path(text, working);
    if (here == beside || !fs::is_regular_file(here, none)) return beside;
    if (!fs::is_regular_file(beside, none)) return here;
    if (read_file(here, kMaxBytes) != read_file(beside, kMaxBytes))
      draft_.problems.add(mark, path,
                          fmt::format("{} is {}, but {} and {} differ: write the full path of the one to use", path,
                                      shown(text), beside, here),
                          "one-value");
    return beside;
  }

  const fs::path& folder_;
  Draft& draft_;
};

/// `text` with its ${…} replaced; sets `why` if that fails.
std::string expanded(const std::string& text, std::string& why) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t start = text.find("${", at);
    if (start == std::string::npos) return out + text.substr(at);
    out += text.substr(at, start - at);
    if (start > at && text[start - 1] == '$') {  // $${ escapes ${
      out += "{";
      at = start + 2;
      continue;
    }
    const std::size_t end = text.find('}', start);
    if (end == std::string::npos) {
      why = "'${' has no closing '}'; write '$${' for a literal '${'";
      return text;
    }
    const std::string inside = text.substr(start + 2, end - start - 2);
    const std::size_t fallback = inside.find(":-");
    const std::string name = inside.substr(0, fallback);
    const char* value = name.empty() ? nullptr : std::getenv(name.c_str());
    const bool given = value && (*value || fallback == std::string::npos);
    if (!given && fallback == std::string::npos) {
      why = fmt::format("the environment variable '{}' is not set; write ${{{}:-default}} to give it a default",
                        shown(name), shown(name));
      return text;
    }
    out += given ? value : inside.substr(fallback + 2);
    at = end + 1;
  }
  return out;
}

/// Replaces a range of machines ("1:4") by its maximum.
void take_range(Node& node) {
  const std::size_t colon = node.text.find(':');
  const std::string most = colon == std::string::npos ? "" : node.text.substr(colon + 1);
  if (parse_int(node.text.substr(0, colon)) && parse_int(most)) node.text = most;
}

/// Replaces another vendor's devices by NVIDIA's. Accelerate reads null as NO.
void take_device(Node& node) {
  const Mark mark = node.mark;
  if (node.is_null()) node = encode(DistributedType::kNo);
  node.mark = mark;
  if (const OtherDevices* const other = other_devices(node.text)) node.text = name_of(other->here);
}

/// TRL's list of losses as one loss, and the weight of sft as rpo_alpha.
void take_losses(Node& dpo, Problems& problems) {
  const Node* const losses = dpo.find("loss_type");
  const Node* const given = dpo.find("loss_weights");
  const Node weights = given ? *given : Node();
  if (!losses || losses->is_null() || (!losses->is_list() && weights.is_null())) return;
  const LossesOfPairs read = losses_of_pairs(*losses, weights);
  const auto refuse = [&](const std::string& why) {
    problems.add(losses->mark, "dpo.loss_type",
                 fmt::format("dpo.loss_type: {} is not supported: {}", text_of(*losses), why));
    dpo.erase("loss_type");
    dpo.erase("loss_weights");
  };
  if (!read.why.empty()) return refuse(read.why);
  const Node* const own = dpo.find("rpo_alpha");
  if (!read.rpo_alpha.is_null() && own && !own->is_null())
    return refuse("rpo_alpha is the weight of sft; give one of them");
  const Mark mark = weights.is_null() ? losses->mark : weights.mark;
  dpo["loss_type"] = read.loss_type;
  dpo.erase("loss_weights");
  if (read.rpo_alpha.is_null()) return;
  dpo["rpo_alpha"] = read.rpo_alpha;
  dpo["rpo_alpha"].mark = mark;
}

/// `document` with option values instead of those that translate() handles, which are moved to the foreign keys.
Node with_known_values(Node document, Draft& draft) {
  if (!document.is_map()) return document;
  for (Member& member : document.members) {
    if (member.key == "dpo" && member.value.is_map()) take_losses(member.value, draft.problems);
    const bool range = member.key == "num_machines", device = member.key == "distributed_type";
    if (!range && !device) continue;
    draft.foreign.erase(member.key);  // from an earlier document
    Node& node = member.value;
    const Node given = node;
    if (range && node.is_scalar()) take_range(node);
    if (device && (node.is_scalar() || node.is_null())) take_device(node);
    const bool is_range = range && given.text.find(':') != std::string::npos;
    if (is_range || (given.is_scalar() && node.text != given.text)) draft.foreign[member.key] = given;
  }
  return document;
}

}  // namespace

Mark Draft::mark(const std::string& path) const {
  auto it = origins.find(path);
  return it == origins.end() ? Mark() : it->second;
}

void apply(const Node& document, const std::filesystem::path& folder, Draft& draft) {
  apply(with_known_values(document, draft), folder, root_table(), &draft.config, "", draft);
}

void apply(const Node& document, const std::filesystem::path& folder, const Entries& table, void* section,
           const std::string& prefix, Draft& draft) {
  if (document.is_null()) return;
  if (!document.is_map()) {
    const bool unspaced = document.is_scalar() && document.text.find(':') != std::string::npos;
    draft.problems.add(document.mark, "",
                       fmt::format("must be lines of 'key: value'; is {}{}", described(document),
                                   unspaced ? ": a space is missing after ':'" : ""));
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
