#include "engine/config/plan/resolve.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "engine/base/errors.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/machine/environment.h"
#include "engine/config/machine/machines.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/config/plan/files.h"
#include "engine/config/plan/given_text.h"
#include "engine/config/rules/rules.h"
#include "engine/config/tables.h"
#include "engine/config/translate/translate.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

void apply_file(const std::string& file, Draft& draft) {
  if (file.empty()) return;
  Node document = read_document(file, draft.problems);
  if (document.is_null() || (document.is_map() && document.members.empty())) {
    throw ConfigError("{}: is empty; `trainer config --config_file {}` creates its content", file, file);
  }
  refuse_doubtful(document, draft.problems);
  expand_environment(document, draft.problems);
  refuse_secrets(document, draft.problems);
  apply(document, fs::absolute(file).parent_path(), draft);
}

std::map<std::string, std::string> all_origins(const Draft& draft) {
  std::map<std::string, std::string> origins;
  walk(root_table(), &draft.config, [&](const std::string& path, const Entry& entry, const void*) {
    if (entry.foreign == Foreign::kNot && !entry.children) origins[path] = to_string(draft.mark(path));
    return true;
  });
  return origins;
}

/// `--nproc_per_node`: the number of machines must be known first.
void apply_ranks_per_machine(const Sources& sources, Draft& draft) {
  if (!sources.ranks_per_machine || draft.problems.about("num_machines")) return;
  const Override& given = *sources.ranks_per_machine;
  const int64_t total = parse_int(given.value).value_or(1) * std::max<int64_t>(1, draft.config.num_machines);
  for (const Override& other : sources.overrides) {
    if (other.path != "num_processes" || parse_int(other.value) == total) continue;
    draft.problems.add({std::make_shared<const std::string>(given.source), 0, 0}, "num_processes",
                       fmt::format("sets num_processes to {}, and {} sets it to {}: give one of them", total,
                                   other.source, shown(other.value)),
                       "one-value");
    return;
  }
  apply_override({"num_processes", std::to_string(total), given.source}, draft);
}

/// Defaults that depend on the task: causal_lm has a single text column and no separate target, or prompts, or pairs.
void default_by_task(Draft& draft) {
  DataConfig& data = draft.config.data;
  if (draft.config.dpo) {
    if (!draft.is_set("data.task")) data.task = Task::kCausalLm;
    if (!draft.is_set("data.source")) data.source = kPromptColumn;
    if (!draft.is_set("data.target")) data.target = kChosenColumn;
    if (!draft.is_set("data.rejected")) data.rejected = kRejectedColumn;
    return;
  }
  if (data.task == Task::kSeq2SeqLm) return;
  const bool prompts = data.dialogue == Dialogue::kPrompt;
  if (!draft.is_set("data.source")) data.source = prompts ? kPromptColumn : "text";
  if (!draft.is_set("data.target"))
    data.target = prompts ? kCompletionColumn : data.task == Task::kSequenceClassification ? "label" : "";
}

/// An elastic run should survive the loss of machines.
void default_by_machines(Draft& draft) {
  if (is_elastic(draft.config) && !draft.is_set("max_restarts")) draft.config.max_restarts = kRestartsOfElasticRuns;
}

/// Each kind of adapter has its own defaults.
void default_by_adapter(Draft& draft) {
  const AdapterKind* kind = draft.config.lora ? find_adapter_kind(draft.config.lora->peft_type) : nullptr;
  if (kind == nullptr) return;
  LoraConfig& lora = *draft.config.lora;
  for (const Entry& entry : lora_table()) {
    if (!kind->takes(entry.name) || draft.is_set("lora." + entry.name)) continue;
    const Node value = entry.write(&kind->defaults);
    if (!same(value, entry.write(&lora))) entry.read(value, &lora);
  }
}

/// Replaces `lora` by the adapter in lora.path, so that the rules check what will be trained. Options that differ from
/// it draw a warning; only a few can be overridden.
void resolve_adapter(Draft& draft) {
  LoraConfig& given = *draft.config.lora;
  LoraConfig found = read_adapter_config(given);
  const auto& overridable = find_adapter_kind(found.peft_type)->overridable;
  for (const Entry& entry : lora_table())
    if (std::count(overridable.begin(), overridable.end(), entry.name) != 0 && draft.is_set("lora." + entry.name))
      entry.read(entry.write(&given), &found);
  const auto marks = adapter_config_marks(given.path);
  for (const Entry& entry : lora_table()) {
    if (!entry.write || same(entry.write(&given), entry.write(&found))) continue;
    const std::string path = "lora." + entry.name;
    if (draft.is_set(path))
      draft.warnings.push_back(fmt::format("{}: {} is {}, but the adapter in lora.path has {}, which is used",
                                           to_string(draft.mark(path)), path, shown(text_of(entry.write(&given))),
                                           shown(text_of(entry.write(&found)))));
    const auto mark = marks.find(entry.name);
    const std::string file = adapter_config_file(given.path);
    draft.origins[path] = mark != marks.end() ? mark->second : Mark{std::make_shared<const std::string>(file), 0, 0};
  }
  given = std::move(found);
}

}  // namespace

Plan resolve_plan(const Sources& sources) {
  Draft draft;
  apply_file(sources.file, draft);
  apply_file(sources.job_file, draft);
  const bool ranks_given =
      sources.ranks_per_machine || std::any_of(sources.overrides.begin(), sources.overrides.end(),
                                               [](const Override& o) { return o.path == "num_processes"; });
  apply_environment(draft, ranks_given);
  for (const Override& given : sources.overrides) apply_override(given, draft);
  apply_ranks_per_machine(sources, draft);
  for (const Problem& p : sources.problems) draft.problems.add(p.mark, p.path, p.message, p.rule);
  const auto& idle = sources.without_effect;
  draft.without_effect.insert(draft.without_effect.end(), idle.begin(), idle.end());

  const std::string main_file = sources.file.empty() ? sources.job_file : sources.file;
  translate(draft);
  default_by_task(draft);
  default_by_machines(draft);
  default_by_adapter(draft);
  std::optional<InputError> bad_adapter;  // thrown only if the configuration itself has no problems
  try {
    if (draft.config.lora && !draft.config.lora->path.empty()) resolve_adapter(draft);
  } catch (const InputError& error) {
    bad_adapter = error;
  }
  check_options(draft);
  check_rules(draft, main_file, sources.job_file.empty() ? main_file : sources.job_file, sources.to_run);
  draft.problems.throw_if_any();
  if (bad_adapter) throw InputError("{}: lora.path: {}", to_string(draft.mark("lora.path")), bad_adapter->what());
  draft.warnings.insert(draft.warnings.begin(), draft.problems.warnings().begin(), draft.problems.warnings().end());

  const bool shares_folder = draft.config.tokenizer.path.empty();
  complete(draft.config);
  draft.config.output_dir = absolute_path(draft.config.output_dir, fs::absolute(main_file).parent_path());
  Plan plan;
  plan.origins = all_origins(draft);
  if (shares_folder) plan.origins["tokenizer.path"] = "model.path";
  plan.config = std::move(draft.config);
  plan.warnings = std::move(draft.warnings);
  plan.translated = std::move(draft.translated);
  plan.without_effect = std::move(draft.without_effect);
  plan.source = main_file;
  return plan;
}

}  // namespace trainer::config
