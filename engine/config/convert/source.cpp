#include "engine/config/convert/source.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "engine/base/edit_distance.h"
#include "engine/config/rules/rules.h"
#include "engine/config/tables.h"
#include "engine/config/trackers.h"
#include "engine/config/translate/translate.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

const std::string kTraining = "training.";

const Entry* find_key(const Entries& table, const std::string& key) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const Entry& entry) { return entry.has_key(key); });
  return found == table.end() ? nullptr : &*found;
}

/// Why option `to` has no such value among its list of values; "" if it has, or if it takes any text or number.
std::string lacks(const std::string& to, const Node& value) {
  Config scratch;
  const Place place = find_option(scratch, to);
  if (!place.entry || !place.entry->read || place.entry->kind.choices.empty() || !value.is_scalar()) return "";
  if (std::string why = place.entry->read(value, place.section); !why.empty()) return why;
  return place.entry->unsupported ? place.entry->unsupported(place.section) : "";
}

std::string nearest_key(const std::string& key, const Entries& table) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.push_back(entry.name);
  return did_you_mean(key, names);
}

}  // namespace

Entries same_keys(const std::vector<SameKey>& keys) {
  Entries entries;
  for (const auto& [key, to] : keys) entries.push_back(translated(key, fmt::format("The same as {}.", to)).entry);
  return entries;
}

void set_paths(Source& source, const GivenKey& from, const std::string& to, const Node& paths) {
  const bool single = paths.items.size() == 1;
  if (!single && to == "data.validation.path")
    source.not_honored(from, "data.validation.path is one file, folder or pattern; put the files into one folder");
  else
    source.set(from, to, single ? paths.items.front() : paths);
}

void Source::read(const Node& map, const Entries& table, const std::string& prefix, bool training) {
  Node own = map;
  own.members.clear();
  for (const Member& member : map.members) {
    if (find_key(table, member.key)) {
      own.members.push_back(member);
    } else if (training && find_key(training_table(), member.key)) {
      pass(member.key, member.value);
    } else {
      const std::string path = prefix + member.key;
      unknown.push_back({path, text_of(member.value), to_string(member.mark), nearest_key(member.key, table)});
    }
  }
  apply(own, "", table, nullptr, prefix, draft_);
}

bool Source::asks(const std::string& path) const {
  return !asks_nothing(key(path).value, {});
}

bool Source::is_true(const std::string& path) const {
  return parse_bool(key(path).value.text) == true;
}

std::string Source::word(const std::string& path) const {
  return key(path).value.is_scalar() ? lower(key(path).value.text) : "";
}

void Source::set(const GivenKey& from, const std::string& to, const Node& value) {
  if (const std::string why = lacks(to, value); !why.empty())
    not_honored(from, fmt::format("{} {}", to, why));
  else
    translation_.set(from, to, value);
}

void Source::set_if_given(const std::string& path, const std::string& to) {
  const GivenKey given = key(path);
  if (!given.value.is_null()) set(given, to, given.value);
}

void Source::set_all(const std::vector<SameKey>& keys) {
  for (const auto& [key, to] : keys) set_if_given(key, to);
}

void Source::assume(const std::string& name, const std::string& to, const std::string& value) {
  if (!key(name).value.is_null() || draft_.is_set(to)) return;
  set({name + " (left out, so its default)", Node::scalar(value), document_.mark}, to, Node::scalar(value));
}

void Source::assume_argument(const std::string& name, const std::string& to, const std::string& value) {
  const Node* const given = document_.find(name);
  if (!given || given->is_null()) assume(name, to, value);
}

void Source::pass(const std::string& name, const Node& value) {
  if (value.is_null()) return;
  const GivenKey given{name, value, value.mark};
  if (name == "report_to") return report_to(value);
  if (name == "deepspeed") return pass_deepspeed(value);
  if (name == "output_dir")
    return set(given, name, value.is_scalar() ? Node::scalar(path(value.text), value.quoted) : value);
  const std::string to = kTraining + name;
  if (const std::string why = lacks(to, value); !why.empty()) return not_honored(given, fmt::format("{} {}", to, why));
  training_.members.push_back({name, value, value.mark});
}

/// A file is read here, so that the new one doesn't depend on it.
void Source::pass_deepspeed(const Node& value) {
  const bool file = value.is_scalar() && !parse_bool(value.text) && !value.text.empty();
  Node kept = value;
  if (file) {
    const fs::path beside = folder_of(value.mark) / value.text;
    if (fs::is_regular_file(value.text))
      kept.text = fs::absolute(value.text);
    else if (fs::is_regular_file(beside))
      kept.text = beside;
    else
      return not_honored({"deepspeed", value, value.mark},
                         "there is no such file in the working folder or beside this file; copy it, and convert again");
  }
  training_.members.push_back({"deepspeed", kept, value.mark});
}

void Source::report_to(const Node& value) {
  std::vector<std::string> kept;
  std::vector<std::string> given;
  if (std::ignore = decode(value, given); given.empty()) return;
  for (const std::string& name : given) {
    std::string why = lacks("logging.report_to", Node::scalar(name));
    if (why.empty()) why = why_not_tracked(lower(name));
    if (why.empty())
      kept.push_back(name);
    else
      not_honored({"report_to", Node::scalar(name), value.mark}, why);
  }
  if (!kept.empty()) set({"report_to", value, value.mark}, "logging.report_to", Node::list(kept));
}

void Source::not_honored(const GivenKey& from, const std::string& reason) {
  draft_.without_effect.push_back({from.key, text_of(from.value), to_string(from.mark), reason});
}

void Source::leave_open(const GivenKey& from, const std::string& advice) {
  undecided.push_back({from.key, text_of(from.value), to_string(from.mark), advice});
}

void Source::refuse(const GivenKey& from, const std::string& reason) {
  draft_.problems.add(from.mark, from.key,
                      fmt::format("{}: {} is not supported: {}", from.key, text_of(from.value), reason));
}

std::string Source::path(const std::string& text) const {
  std::error_code none;
  if (text.empty() || fs::path(text).is_absolute() || !fs::exists(text, none)) return text;
  return fs::proximate(fs::absolute(text), fs::absolute(folder_), none).string();
}

void Source::finish(const Entries& table) {
  Node document = Node::map();
  document["training"] = training_;
  document["training"].mark = document_.mark;
  apply(document, "", draft_);
  draft_.lists_unsupported = true;
  translate_training_arguments(draft_);
  translate_fsdp_argument(draft_);
  translate_deepspeed(draft_);
  draft_.lists_unsupported = false;
  for (Note& note : draft_.without_effect)
    if (note.key.starts_with(kTraining)) note.key.erase(0, kTraining.size());  // as the file has it
  list_idle(table, "");
  for (const Entry& entry : training_table()) {
    const GivenKey given = key(kTraining + entry.name);
    const bool listed = entry.foreign == Foreign::kNoEffect || entry.foreign == Foreign::kUnsupported;
    if (listed && !asks_nothing(given.value, entry.harmless))
      not_honored({entry.name, given.value, given.mark}, entry.reason);
  }
}

void Source::list_idle(const Entries& table, const std::string& prefix) {
  for (const Entry& entry : table) {
    const GivenKey given = key(prefix + entry.name);
    if (asks_nothing(given.value, entry.harmless)) continue;
    if (entry.foreign == Foreign::kUnsupported) refuse(given, entry.reason);
    if (entry.foreign == Foreign::kNoEffect) not_honored(given, entry.reason);
  }
}

}  // namespace trainer::config
