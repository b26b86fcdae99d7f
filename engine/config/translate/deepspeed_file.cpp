// Finds and reads a ds_config.json.
#include <filesystem>

#include "engine/config/plan/files.h"
#include "engine/config/rules/rules.h"
#include "engine/config/translate/deepspeed.h"

namespace trainer::config {

GivenKey deepspeed_argument(Draft& draft) {
  GivenKey argument = Translation(draft).foreign("training.deepspeed");
  if (!argument.value.is_scalar()) return argument;
  const std::string text = lower(argument.value.text);
  if (text.empty() || text == "none" || parse_bool(text) == false) argument.value = Node();
  return argument;
}

GivenKey ds_config_source(Draft& draft) {
  GivenKey file;
  const GivenKey argument = deepspeed_argument(draft);
  const auto& section = draft.config.deepspeed_config;
  if (section && !section->config_file.empty() && section->config_file != "none") {
    file = Translation(draft).option("deepspeed_config.deepspeed_config_file");
  }
  if (argument.value.is_null() || file.value.is_null()) return argument.value.is_null() ? file : argument;
  const Layer of_argument = layer_of(argument.mark), of_file = layer_of(file.mark);
  if (of_argument == of_file && !same(argument.value, file.value)) {
    draft.problems.add(argument.mark, argument.key,
                       fmt::format("training.deepspeed is {}, but {} is {} ({}): give one of them",
                                   shown(text_of(argument.value)), file.key, text_of(file.value), to_string(file.mark)),
                       "one-value");
  }
  return of_file > of_argument ? file : argument;
}

namespace {

/// Files of DeepSpeed's first versions have a boolean instead of a section.
Node with_stage(Node document) {
  for (Member& member : document.members) {
    const auto truth =
        member.key == "zero_optimization" && member.value.is_scalar() ? parse_bool(member.value.text) : std::nullopt;
    if (!truth) continue;
    Node stage = Node::scalar(*truth ? "1" : "0");
    stage.mark = member.value.mark;
    member.value.kind = Node::Kind::kMap;
    member.value["stage"] = stage;
  }
  return document;
}

/// Accelerate's keys, and theirs in a ds_config.json. The latter may be auto, and is the former then.
constexpr std::pair<const char*, const char*> kAccelerates[] = {
    {"zero_stage", "zero_optimization.stage"},
    {"offload_optimizer_device", "zero_optimization.offload_optimizer.device"},
    {"offload_param_device", "zero_optimization.offload_param.device"},
    {"gradient_accumulation_steps", "gradient_accumulation_steps"},
    {"gradient_clipping", "gradient_clipping"},
    {"zero3_save_16bit_model", "zero_optimization.stage3_gather_16bit_weights_on_model_save"}};

/// The value at `path` of `document`; null if it has none.
Node* find(Node& document, std::string_view path) {
  const size_t dot = path.find('.');
  for (Member& member : document.members) {
    if (member.key != path.substr(0, dot)) continue;
    return dot == std::string_view::npos ? &member.value : find(member.value, path.substr(dot + 1));
  }
  return nullptr;
}

/// Replaces auto by the value of Accelerate's key, if it isn't auto too. Nothing else reads the key then.
Node with_accelerates(Node document, Draft& draft) {
  if (!draft.config.deepspeed_config) draft.config.deepspeed_config.emplace();
  for (const auto& [key, path] : kAccelerates) {
    Node* const value = find(document, path);
    if (value == nullptr || value->text != "auto") continue;
    const GivenKey given = Translation(draft).option(fmt::format("deepspeed_config.{}", key));
    if (given.value.text == "auto") continue;
    const Mark mark = draft.is_set(given.key) ? given.mark : value->mark;
    *value = given.value;
    value->mark = mark;
    draft.origins.erase(given.key);
  }
  return document;
}

}  // namespace

bool DsDocument::read(const GivenKey& source) {
  Node document = source.value;
  std::filesystem::path folder;
  try {
    if (source.value.is_scalar()) {
      document = read_document(source.value.text, draft_.problems);
      folder = std::filesystem::absolute(source.value.text).parent_path();
    }
  } catch (const ConfigProblems&) {  // they are recorded in the draft
    return false;
  } catch (const ConfigError& error) {
    draft_.problems.add(source.mark, source.key,
                        fmt::format("{}: {}; a relative path is looked up in the folder of the file that names it, "
                                    "then in the working folder",
                                    source.key, error.what()));
    return false;
  }
  apply(with_accelerates(with_stage(std::move(document)), draft_), folder, ds_config_table(), &config_, kPrefix,
        draft_);
  check_section(draft_, ds_config_table(), &config_, kPrefix);
  return true;
}

GivenKey DsDocument::key(const std::string& path) {
  const Place place = find_option(ds_config_table(), &config_, path);
  require(place.entry && place.entry->write, "{} is not an option of a ds_config.json", path);
  return {kPrefix + path, place.entry->write(place.section), draft_.mark(kPrefix + path)};
}

void DsDocument::set(const std::string& path, const std::string& to) {
  const GivenKey given = key(path);
  if (has(path) && !failed(path) && given.value.text != "auto") Translation(draft_).set(given, to, given.value);
}

void DsDocument::assume(const std::string& path, const Node& value, const std::string& type, const std::string& to) {
  Translation translation(draft_);
  if (has(path) || failed(path) || same(translation.option(to).value, value)) return;
  translation.set({kPrefix + path + " (left out, so DeepSpeed's default)", value, draft_.mark(kPrefix + type)}, to,
                  value);
}

void check_beside_file(Draft& draft, DsDocument& ds) {
  for (const auto& [key, path] : kAccelerates) {
    const std::string beside = fmt::format("deepspeed_config.{}", key);
    if (!draft.is_set(beside) || ds.failed(path)) continue;
    const GivenKey given = Translation(draft).option(beside), in_file = ds.key(path);
    if (given.value.text == "auto" || in_file.value.text == "auto" || same(given.value, in_file.value)) continue;
    draft.problems.add(
        given.mark, beside,
        fmt::format("{} is {}, but {} is {} ({}): Accelerate forbids both; set it only in the ds_config.json", beside,
                    text_of(given.value), in_file.key, text_of(in_file.value), to_string(in_file.mark)),
        "one-value");
  }
}

}  // namespace trainer::config
