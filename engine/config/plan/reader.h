// Applies documents to the defaults, one after the other, and records where each value came from.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/config/document/problems.h"
#include "engine/config/plan/plan.h"
#include "engine/config/schema.h"

namespace trainer::config {

/// A configuration under construction.
struct Draft {
  Config config;
  std::map<std::string, Mark> origins;  // options that a document set, by path: "training.learning_rate"
  std::map<std::string, Node> foreign;  // foreign keys that a document set
  Problems problems;
  std::vector<std::string> warnings;
  std::vector<Note> translated, without_effect;
  bool lists_unsupported = false;  // a translated key whose value isn't supported is without effect, not a problem

  bool is_set(const std::string& path) const { return origins.contains(path); }
  Mark mark(const std::string& path) const;
};

/// Applies `document` to `draft`. Relative paths are resolved against `folder`; an empty `folder` leaves them as they
/// are.
void apply(const Node& document, const std::filesystem::path& folder, Draft& draft);

/// The same for a standalone section: `table` is `section`'s, and `prefix` ("ds_config.") is prepended to its keys in
/// origins and foreign keys.
void apply(const Node& document, const std::filesystem::path& folder, const Entries& table, void* section,
           const std::string& prefix, Draft& draft);

/// Replaces ${VAR} and ${VAR:-default} in every scalar; $${ stands for ${.
void expand_environment(Node& document, Problems& problems);

/// `text` as an absolute path: ~/ is the home folder; other relative paths are resolved against `folder`.
std::string absolute_path(const std::string& text, const std::filesystem::path& folder);

/// Calls `visit(path, entry, section)` for every option below `section`, including foreign keys, and for every section
/// before its contents. Returning false for a section skips it. Absent optional sections are skipped.
using Visit = std::function<bool(const std::string& path, const Entry& entry, const void* section)>;
void walk(const Entries& entries, const void* section, const Visit& visit, const std::string& prefix = "");

/// Calls `visit(path, entry)` for every entry of the tables, including absent sections; a section comes before its
/// contents.
void each_entry(const Entries& entries, const std::function<void(const std::string&, const Entry&)>& visit,
                const std::string& prefix = "");

/// The option called `path` and its section, which is opened if it was absent; no entry if there is no such option.
struct Place {
  const Entry* entry = nullptr;
  void* section = nullptr;
};
Place find_option(Config& config, const std::string& path);
/// The same in a standalone section.
Place find_option(const Entries& table, void* section, const std::string& path);

}  // namespace trainer::config
