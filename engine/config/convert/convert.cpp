#include "engine/config/convert/convert.h"

#include "engine/config/convert/axolotl_types.h"
#include "engine/config/convert/recognize.h"
#include "engine/config/convert/source.h"
#include "engine/config/plan/files.h"
#include "engine/config/tables.h"

namespace trainer::config {
namespace {

/// The tables of `training` have every key of TrainingArguments.
const Entries& no_keys() {
  static const Entries none;
  return none;
}

/// Values out of range. The rules between options are left to `trainer check`.
void check_ranges(Draft& draft) {
  for (const auto& [path, mark] : draft.origins) {
    const Place place = find_option(draft.config, path);
    if (!place.entry || place.entry->children) continue;
    for (const auto& check : place.entry->checks)
      if (const std::string why = check(place.section); !why.empty())
        draft.problems.add(mark, path, fmt::format("{} {}", path, why));
  }
}

/// The other program's launcher chooses the ranks; one is what a file alone stands for.
void add_strategy(Draft& draft) {
  const auto& mesh = draft.config.parallelism_config;
  const bool several = mesh && (mesh->dp_replicate_size > 1 || mesh->dp_shard_size > 1 || mesh->tp_size > 1 ||
                                mesh->cp_size > 1 || mesh->sp_size > 1 || mesh->pp_size > 1);
  if (several || draft.is_set("distributed_type")) return;
  draft.config.num_processes = 1;
  for (const char* const path : {"distributed_type", "num_processes"}) draft.origins[path] = Mark();
}

/// The options that were set, as a document.
Node set_options(Draft& draft) {
  Node document = Node::map();
  for (const auto& [path, mark] : draft.origins) {
    const Place place = find_option(draft.config, path);
    if (!place.entry || place.entry->children || !place.entry->write) continue;
    Node* at = &document;
    std::size_t begin = 0;
    for (std::size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', begin)) {
      at = &(*at)[path.substr(begin, dot - begin)];
      at->kind = Node::Kind::kMap;
      begin = dot + 1;
    }
    (*at)[path.substr(begin)] = place.entry->write(place.section);
  }
  return document;
}

}  // namespace

const std::vector<Dialect>& dialects() {
  static const std::vector<Dialect> all{{"axolotl", "axolotl", axolotl::table, axolotl::convert},
                                        {"trl_sft", "TRL SFT", trl::sft_table, trl::convert_sft},
                                        {"trl_dpo", "TRL DPO", trl::dpo_table, trl::convert_dpo},
                                        {"llamafactory", "LLaMA-Factory", llama_factory::table, llama_factory::convert},
                                        {"training_arguments", "TrainingArguments", no_keys, [](Source&) {}}};
  return all;
}

Conversion convert(const std::string& file, const std::string& from, const std::string& folder) {
  Draft draft;
  const Node document = read_document(file, draft.problems);
  if (!document.is_map()) throw ConfigError("{}: must be lines of 'key: value'; is {}", file, described(document));
  const auto [found, by] = recognized(document, from, file);
  const Dialect& dialect = *found;
  Source source(document, folder, draft);
  source.read(document, dialect.table(), "", true);
  dialect.translate(source);
  source.finish(dialect.table());
  check_ranges(draft);
  draft.problems.throw_if_any();
  add_strategy(draft);
  return {&dialect,
          by,
          set_options(draft),
          std::move(draft.translated),
          std::move(draft.without_effect),
          std::move(source.unknown),
          std::move(source.undecided)};
}

std::string conversion_tables() {
  std::string page;
  for (const Dialect& dialect : dialects()) {
    if (dialect.table().empty()) continue;
    page += fmt::format("### {}\n\n| key | what happens to it |\n|---|---|\n", dialect.program);
    for (const Entry& entry : dialect.table()) {
      const bool honored = entry.foreign == Foreign::kTranslated;
      const char* const fate = entry.foreign == Foreign::kUnsupported ? "refused: " : "not honored: ";
      page += fmt::format("| `{}` | {}{} |\n", entry.name, honored ? "" : fate, honored ? entry.help : entry.reason);
    }
    page += "\n";
  }
  page += "### axolotl's dataset types\n\n| type | what happens to it |\n|---|---|\n" + axolotl::type_table();
  return page;
}

}  // namespace trainer::config
