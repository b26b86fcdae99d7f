#include "engine/config/wizard/draft.h"

#include <algorithm>

#include "engine/base/files.h"
#include "engine/config/pages/file_text.h"
#include "engine/config/plan/files.h"
#include "engine/config/plan/reader.h"
#include "engine/config/tables.h"
#include "engine/config/translate/translate.h"

namespace trainer::config {
namespace {

/// The member of `map` that contains `entry`, under any of its names.
Member* find_member(Node& map, const Entry& entry) {
  for (Member& member : map.members) {
    if (entry.has_key(member.key)) return &member;
  }
  return nullptr;
}

/// The value of `path` in `document`, which is created (as null) if it is absent and `make` is true; null: absent.
Node* find_written(Node& document, const std::string& path, bool make) {
  const Entries* entries = &root_table();
  Node* node = &document;
  for (const std::string& key : split(path, '.')) {
    auto entry = std::find_if(entries->begin(), entries->end(), [&](const Entry& e) { return e.has_key(key); });
    if (entry == entries->end()) return nullptr;
    if (!node->is_map() && !make) return nullptr;
    if (!node->is_map()) *node = Node::map();
    Member* member = find_member(*node, *entry);
    if (!member && !make) return nullptr;
    if (make && member) member->key = entry->name;
    node = member ? &member->value : &(*node)[entry->name];
    if (!entry->children) return node;
    entries = entry->children;
  }
  return node;
}

Place place_of(Config& config, const std::string& path) {
  const Place place = find_option(config, path);
  if (!place.entry) throw InternalError("the wizard asks for '{}', which is not an option", path);
  return place;
}

/// The option's value as written to files: Accelerate writes every float with a dot, 1.0.
Node written_value(const std::string& path, const Place& place) {
  Node node = place.entry->write(place.section);
  Config ignored;
  const Place part = find_option(ignored, path.substr(0, path.find('.')));
  const bool fraction = part.entry->accelerate && place.entry->kind.type == Type::kNumber;
  if (fraction && parse_int(node.text)) node.text += ".0";
  return node;
}

/// Converts older spellings as Accelerate does.
void modernize(Draft& draft, Node& document) {
  translate_accelerate(draft);
  if (document.find("fp16")) {
    document.erase("fp16");
    if (!document.find("mixed_precision") && draft.is_set("mixed_precision"))
      document["mixed_precision"] = encode(draft.config.mixed_precision);
  }
  if (const Node* found = document.find("dynamo_backend")) {
    const Node backend = *found;
    document.erase("dynamo_backend");
    if (backend.is_scalar() && backend.text != "NO")
      *find_written(document, "dynamo_config.dynamo_backend", true) = backend;
  }
}

Draft read_raw(const Node& document, Config config) {
  Draft draft;
  draft.config = std::move(config);
  Node expanded = document;
  expand_environment(expanded, draft.problems);
  apply(expanded, "", draft);
  return draft;
}

Node read_checked(const std::string& file) {
  Problems problems;
  Node document = read_document(file, problems);
  problems.throw_if_any();
  return document;
}

void reset(const Entry& entry, void* section) {
  if (entry.read && entry.write) entry.read(entry.initial, section);
}

/// Whether `text` has YAML comments, except those that the wizard writes.
bool comments_in(const std::string& text) {
  for (const std::string& line : split(text, '\n')) {
    const bool comment = line.front() == '#' || line.find(" #") != std::string::npos;
    const bool own = is_first_comment(line) || line == kSectionsComment || line == kLastComment;
    if (comment && !own) return true;
  }
  return false;
}

bool mentions_variable(const Node& node) {
  if (node.text.find("${") != std::string::npos) return true;
  return std::any_of(node.items.begin(), node.items.end(), mentions_variable) ||
         std::any_of(node.members.begin(), node.members.end(),
                     [](const Member& member) { return mentions_variable(member.value); });
}

}  // namespace

bool WizardDraft::has(const std::string& path) const {
  const Node* node = find_written(const_cast<Node&>(document), path, false);
  return node && !node->is_null();
}

Node WizardDraft::value(const std::string& path) {
  const Place place = place_of(config, path);
  return place.entry->write(place.section);
}

void WizardDraft::hold(const std::string& path) {
  if (!has(path)) *find_written(document, path, true) = written_value(path, place_of(config, path));
}

std::string WizardDraft::set(const std::string& path, const Node& given) {
  const auto [entry, section] = place_of(config, path);
  const Node before = entry->write(section);
  std::string why = entry->read(given, section);
  for (const auto& check : entry->checks) {
    if (why.empty()) why = check(section);
  }
  if (why.empty() && entry->unsupported) why = entry->unsupported(section);
  if (!why.empty()) {
    entry->read(before, section);  // a rejected answer leaves no trace
    return entry->name + " " + why;
  }
  write(path, {entry, section}, before);
  return "";
}

void WizardDraft::assign(const std::string& path, const Node& given) {
  const auto [entry, section] = place_of(config, path);
  const Node before = entry->write(section);
  entry->read(given, section);
  write(path, {entry, section}, before);
}

void WizardDraft::write(const std::string& path, const Place& place, const Node& before) {
  const bool changed = !same(before, place.entry->write(place.section));
  if (changed || !has(path)) *find_written(document, path, true) = written_value(path, place);
}

void WizardDraft::put(const std::string& path, const Node& value) {
  *find_written(document, path, true) = value;
}

void WizardDraft::erase(const std::string& path) {
  const auto dot = path.rfind('.');
  Node* parent = dot == std::string::npos ? &document : find_written(document, path.substr(0, dot), false);
  const bool absent = !parent || !parent->is_map();
  const auto [found, section] = find_option(config, path);
  if (!found) return;
  const Entry& entry = *found;
  if (!absent) std::erase_if(parent->members, [&](const Member& member) { return entry.has_key(member.key); });
  if (entry.clear) {
    entry.clear(section);
  } else if (entry.children) {
    for (const Entry& child : *entry.children) reset(child, entry.open(section));
  } else {
    reset(entry, section);
  }
}

WizardDraft read_draft(const std::string& file) {
  WizardDraft draft;
  draft.document = read_checked(file);
  if (draft.document.is_null()) draft.document = Node::map();
  Draft read = read_raw(draft.document, {});
  modernize(read, draft.document);
  read.problems.throw_if_any();
  draft.config = std::move(read.config);
  draft.has_comments = comments_in(read_file(file, kMaxBytes));
  return draft;
}

void apply_answers(const std::string& file, WizardDraft& draft) {
  Node answers = read_checked(file);
  Draft read = read_raw(answers, draft.config);
  modernize(read, answers);
  read.problems.throw_if_any();
  draft.config = std::move(read.config);
  for (const auto& [path, mark] : read.origins) {
    Node* given = find_written(answers, path, false);
    const Place place = place_of(draft.config, path);
    if (place.entry->children) continue;
    const bool as_written = given && mentions_variable(*given);
    *find_written(draft.document, path, true) = as_written ? *given : written_value(path, place);
  }
  for (const auto& [path, node] : read.foreign) {
    if (find_written(answers, path, false)) draft.put(path, node);
  }
}

void add_frame(Frame frame, WizardDraft& draft) {
  const bool asked = frame == Frame::kWizard;
  if (draft.config.compute_environment != "LOCAL_MACHINE") return;  // SageMaker's files have other keys
  const bool by_json = draft.config.deepspeed_config && !draft.config.deepspeed_config->config_file.empty();
  for (const Entry& entry : root_table()) {
    if (!entry.accelerate || entry.children || entry.omitted || draft.has(entry.name)) continue;
    if (entry.name == "mixed_precision" && (by_json || !asked)) continue;
    if (entry.name == "num_processes" && draft.config.num_processes == 0) continue;
    if (entry.foreign == Foreign::kNot) {
      draft.hold(entry.name);
    } else if (!asked && (entry.name == "downcast_bf16" || entry.name == "same_network")) {
      draft.put(entry.name, encode(false));
    } else if (entry.written && (asked || !entry.written->is_list())) {
      draft.put(entry.name, *entry.written);
    }
  }
  const DistributedType type = draft.config.distributed_type;
  const bool picks_gpus = type == DistributedType::kNo || type == DistributedType::kMultiGpu;
  if (asked && picks_gpus && !draft.config.use_cpu && !draft.has("gpu_ids")) draft.put("gpu_ids", Node::scalar("all"));
}

Node node_of_answer(const Entry& entry, const std::string& answer) {
  const bool pattern = entry.kind.words == kind_of<NamesOrPattern>().words;
  const bool list = entry.kind.type == Type::kTexts;
  const bool is_regex = answer.find_first_of("()[]{}*+?^$\\|") != std::string::npos || answer == "all-linear";
  return list && !(pattern && is_regex) ? Node::list(split(answer, ',')) : Node::scalar(answer);
}

std::string typed(const Node& node) {
  if (!node.is_list()) return node.text;
  std::string out;
  for (const Node& item : node.items) out += (out.empty() ? "" : ",") + item.text;
  return out;
}

}  // namespace trainer::config
