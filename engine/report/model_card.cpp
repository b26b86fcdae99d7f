#include "engine/report/model_card.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <vector>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/document/document.h"
#include "engine/config/machine/hub_folder.h"

namespace trainer::report {
namespace fs = std::filesystem;
namespace {

/// The first line after the front matter of our cards. Whoever edits a card removes it.
constexpr std::string_view kMark = "<!-- Written by trainer. Remove this line to keep your changes. -->";
constexpr int64_t kMostBytes = 1 << 20;

/// `text` as a scalar of YAML: JSON's strings are some.
std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// `text` inside a table or a sentence of Markdown.
std::string in_markdown(const std::string& text) {
  std::string safe;
  for (const char c : text) {
    if (c == '|' || c == '<' || c == '>' || c == '`' || c == '*' || c == '_' || c == '[' || c == ']') safe += '\\';
    safe += c == '\n' ? ' ' : c;
  }
  return safe;
}

std::string last_part(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  return (whole.has_filename() ? whole : whole.parent_path()).filename().string();
}

/// The Hub's name of a folder in its cache: …/models--org--name/snapshots/…; "" for another folder.
std::string hub_name_in(const std::string& path, const std::string& kind) {
  for (const fs::path& part : fs::path(path)) {
    std::string name = part.string();
    if (!name.starts_with(kind + "--")) continue;
    name.erase(0, kind.size() + 2);
    if (const size_t at = name.find("--"); at != std::string::npos) name.replace(at, 2, "/");
    return name;
  }
  return "";
}

const Setting* setting_at(const RunFolder& run, const std::string& key) {
  const auto found =
      std::find_if(run.settings.begin(), run.settings.end(), [&](const Setting& s) { return s.key == key; });
  return found == run.settings.end() ? nullptr : &*found;
}

std::string value_of(const RunFolder& run, const std::string& key) {
  const Setting* const setting = setting_at(run, key);
  std::string value = setting == nullptr ? "" : setting->value;
  const bool in_quotes =
      value.size() > 1 && (value.front() == '\'' || value.front() == '"') && value.back() == value.front();
  return in_quotes ? value.substr(1, value.size() - 2) : value;
}

void add_data_names(const config::Node& node, std::vector<std::string>& names) {
  for (const config::Node& item : node.items) add_data_names(item, names);
  if (const config::Node* const path = node.find("path")) add_data_names(*path, names);
  if (!node.is_scalar() || node.text.empty()) return;
  const std::string hub = hub_name_in(node.text, "datasets");
  names.push_back(hub.empty() ? last_part(node.text) : hub);
}

/// The training data: a dataset's name on the Hub, or the names of files.
std::vector<std::string> data_names(const RunFolder& run) {
  std::vector<std::string> names;
  if (const Setting* const path = setting_at(run, "data.train.path")) add_data_names(path->node, names);
  return names;
}

/// Options of the training itself that the user chose. Paths, addresses and accounts are not among these sections, or
/// are left out: anything with a slash is.
std::vector<Setting> card_settings(const RunFolder& run) {
  static const std::set<std::string> kSingle{
      "seed",         "num_processes",          "distributed_type",      "data.task", "mixed_precision",
      "data.packing", "data.max_source_length", "data.max_target_length"};
  std::vector<Setting> told;
  for (const Setting& setting : run.settings) {
    const bool section =
        setting.key.starts_with("training.") || setting.key.starts_with("lora.") || setting.key.starts_with("dpo.");
    if (!section && kSingle.count(setting.key) == 0) continue;
    const bool chosen = setting.origin != "default" && !setting.origin.empty();
    const bool always_listed = setting.key == "seed" || setting.key == "data.task";
    if ((chosen || always_listed) && setting.value.find_first_of("/\\@") == std::string::npos) told.push_back(setting);
  }
  return told;
}

struct Results {
  std::optional<Record> update, evaluation;  // the newest
};

Results results_of(const RunFolder& run, int64_t step) {
  Results results;
  for (const Record& record : run.records) {
    if (record.step > step || record.is_event()) continue;
    (record.is_evaluation() ? results.evaluation : results.update) = record;
  }
  return results;
}

/// The Hub's name of a task; "" where it has none.
std::string pipeline_of(const std::string& task) {
  if (task == "causal_lm") return "text-generation";
  if (task == "sequence_classification") return "text-classification";
  if (task == "image_classification") return "image-classification";
  return "";
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

std::string list_of(const char* key, const std::vector<std::string>& values) {
  if (values.empty()) return "";
  std::string text = fmt::format("{}:\n", key);
  for (const std::string& value : values) text += "- " + quoted(value) + "\n";
  return text;
}

std::vector<std::string> tags_of(const CardSubject& subject) {
  std::vector<std::string> tags;
  if (!subject.adapter.empty()) {
    if (subject.base_on_hub) tags.push_back("base_model:adapter:" + subject.base);
    tags.push_back(lower(subject.adapter));
    tags.emplace_back("transformers");
  }
  tags.emplace_back("generated_from_trainer");
  return tags;
}

/// `model-index`: the results in the Hub's form, which requires a task and a dataset.
std::string index_of(const std::string& title, const std::string& pipeline, const std::string& data,
                     const Record& evaluation) {
  if (pipeline.empty() || data.empty()) return "";
  std::string text = fmt::format(
      "model-index:\n- name: {}\n  results:\n  - task:\n      type: {}\n    dataset:\n      name: {}\n      type: {}\n"
      "    metrics:\n",
      quoted(title), pipeline, quoted(data), quoted(data));
  for (const auto& [key, value] : evaluation.numbers)
    if (key.starts_with("eval_")) {
      const std::string name = quoted(key.substr(5));
      text += fmt::format("    - type: {}\n      name: {}\n      value: {:.6g}\n", name, name, value);
    }
  return text;
}

std::string front_matter(const CardSubject& subject, const RunFolder& run, const Results& results) {
  const std::string pipeline = pipeline_of(value_of(run, "data.task"));
  const std::vector<std::string> data = data_names(run);
  std::vector<std::string> on_hub;
  std::copy_if(data.begin(), data.end(), std::back_inserter(on_hub),
               [](const std::string& name) { return name.find('/') != std::string::npos; });
  std::string text = "---\n";
  text += fmt::format("library_name: {}\n", subject.adapter.empty() ? "transformers" : "peft");
  if (!subject.license.empty()) text += fmt::format("license: {}\n", quoted(subject.license));
  if (subject.base_on_hub) text += fmt::format("base_model: {}\n", quoted(subject.base));
  if (!pipeline.empty()) text += fmt::format("pipeline_tag: {}\n", pipeline);
  std::vector<std::string> tags = tags_of(subject);
  if (!value_of(run, "dpo.beta").empty()) tags.emplace_back("dpo");
  text += list_of("datasets", on_hub) + list_of("tags", tags);
  if (results.evaluation)
    text += index_of(subject.title, pipeline, data.empty() ? "" : data.front(), *results.evaluation);
  return text + "---\n";
}

std::string introduction(const CardSubject& subject) {
  const std::string what = subject.adapter.empty() ? (subject.architecture.empty() ? "model" : subject.architecture)
                                                   : config::adapter_title(subject.adapter) + " adapter";
  const std::string base = subject.base_on_hub
                               ? fmt::format("[{}](https://huggingface.co/{})", subject.base, subject.base)
                               : "`" + subject.base + "`";
  if (subject.base.empty()) return fmt::format("A {} trained from scratch.\n", in_markdown(what));
  return fmt::format("{} {} {} {}.\n", what.starts_with("I") ? "An" : "A", in_markdown(what),
                     subject.adapter.empty() ? "fine-tuned from" : "for", base);
}

std::string results_table(const Results& results) {
  std::string text;
  if (results.update) {
    const auto loss = results.update->numbers.find("loss");
    text += fmt::format("| updates | {} |\n", results.update->step);
    if (loss != results.update->numbers.end()) text += fmt::format("| training loss | {:.6g} |\n", loss->second);
  }
  if (results.evaluation)
    for (const auto& [key, value] : results.evaluation->numbers)
      if (key.starts_with("eval_"))
        text += fmt::format("| validation {} (update {}) | {:.6g} |\n", in_markdown(key.substr(5)),
                            results.evaluation->step, value);
  return text.empty() ? "" : "\n## Results\n\n| | |\n|---|---|\n" + text;
}

/// The scalar `license` in the front matter of a README.md; "" if there is none.
std::string license_in(const fs::path& readme) {
  if (!fs::is_regular_file(readme) || fs::file_size(readme) > static_cast<uintmax_t>(kMostBytes)) return "";
  const std::string text = read_file(readme, kMostBytes);
  if (!text.starts_with("---\n")) return "";
  const std::string front = text.substr(3, text.find("\n---", 3) - 3);
  const size_t at = front.find("\nlicense: ");
  if (at == std::string::npos) return "";
  std::string name = front.substr(at + 10, front.find('\n', at + 1) - at - 10);
  std::erase_if(name, [](char c) { return c == '"' || c == '\'' || c == ' ' || c == '\r'; });
  const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '+';
  });
  return plain ? name : "";
}

/// The string at `key` of a JSON file, or the first of a list of strings; "" for anything else.
std::string text_in(const fs::path& file, const char* key) {
  if (!fs::is_regular_file(file)) return "";
  const nlohmann::json json = bounded_json_or_none(read_file(file, kMostBytes));
  if (!json.is_object() || !json.contains(key)) return "";
  const nlohmann::json& value = json[key];
  const nlohmann::json& first = value.is_array() && !value.empty() ? value.front() : value;
  return first.is_string() ? first.get<std::string>() : "";
}

CardSubject subject_of(const RunFolder& run, const fs::path& folder) {
  CardSubject subject;
  subject.title = last_part(fs::absolute(folder).string());
  if (subject.title.starts_with("checkpoint-")) subject.title = run.name;
  subject.adapter = text_in(folder / "adapter_config.json", "peft_type");
  subject.architecture = text_in(folder / "config.json", "architectures");
  std::string base = value_of(run, "model.path");
  if (base.empty() || base == "null") base = text_in(folder / "adapter_config.json", "base_model_name_or_path");
  if (base.empty()) return subject;
  const std::string hub = hub_name_in(base, "models");
  const bool named =
      hub.empty() && config::is_hub_name(base) && base.find('/') != std::string::npos && !fs::exists(base);
  subject.base_on_hub = !hub.empty() || named;
  subject.base = !hub.empty() ? hub : named ? base : last_part(base);
  subject.license = license_in(fs::path(base) / "README.md");
  return subject;
}

bool may_write(const fs::path& readme) {
  if (!fs::exists(fs::symlink_status(readme))) return true;
  return fs::is_regular_file(readme) && fs::file_size(readme) < static_cast<uintmax_t>(kMostBytes) &&
         read_file(readme, kMostBytes).find(kMark) != std::string::npos;
}

}  // namespace

std::string model_card(const CardSubject& subject, const RunFolder& run, int64_t step) {
  const Results results = results_of(run, step);
  std::string text = front_matter(subject, run, results);
  text += fmt::format("\n{}\n\n# {}\n\n{}", kMark, in_markdown(subject.title), introduction(subject));
  const std::vector<std::string> data = data_names(run);
  if (!data.empty()) {
    text += "\n## Data\n\n";
    for (const std::string& name : data) text += "- " + in_markdown(name) + "\n";
  }
  const std::vector<Setting> settings = card_settings(run);
  if (!settings.empty()) text += "\n## Training\n\n| option | value |\n|---|---|\n";
  for (const Setting& setting : settings)
    text += fmt::format("| `{}` | {} |\n", setting.key, in_markdown(setting.value));
  text += results_table(results);
  return text + fmt::format("\n## Versions\n\ntrainer {}\n", TRAINER_VERSION);
}

bool write_model_card(const fs::path& output_dir, const fs::path& folder, int64_t step) {
  const bool has_weights = fs::exists(folder / "adapter_config.json") || fs::exists(folder / "model.safetensors");
  if (!has_weights || !may_write(folder / "README.md")) return false;
  const RunFolder run = read_run(output_dir);
  publish_file(folder / "README.md", model_card(subject_of(run, folder), run, step));
  return true;
}

}  // namespace trainer::report
