#include <filesystem>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/base/screen.h"
#include "engine/cli/config_wizard.h"
#include "engine/cli/flags.h"
#include "engine/config/convert/convert.h"
#include "engine/config/pages/file_text.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

/// " (by beta, loss_type)"; "" if --from named the program, or no single key told.
std::string told_by(std::vector<std::string> keys) {
  constexpr std::size_t kShown = 3;
  if (keys.empty()) return "";
  if (keys.size() > kShown) keys.resize(kShown);
  return fmt::format(" (by {})", fmt::join(keys, ", "));
}

/// On standard error, because the file itself can be on standard output.
void list_rest(const std::string& file, const config::Conversion& done) {
  screen::error("{} is {}'s{}: {} set, {} not honored, {} unknown\n", file, done.dialect->program,
                told_by(done.recognized_by), counted(done.translated.size(), "option", "options"),
                counted(done.not_honored.size(), "key", "keys"), done.unknown.size());
  for (const config::Note& note : done.not_honored)
    screen::error("{}: {}: {} is not honored: {}\n", note.origin, note.key, config::shown(note.value), note.text);
  for (const config::Note& note : done.unknown)  // without its value, which can be a secret
    screen::error("{}: {} is not honored: the key is unknown{}\n", note.origin, config::shown(note.key), note.text);
  for (const config::Note& note : done.undecided) screen::error("{}: {}: {}\n", note.origin, note.key, note.text);
}

nlohmann::ordered_json json_of(const std::vector<config::Note>& notes, bool with_values) {
  auto list = nlohmann::ordered_json::array();
  for (const config::Note& note : notes) {
    list.push_back({{"key", note.key}, {"at", note.origin}, {"why", note.text}});
    if (with_values) list.back()["value"] = note.value;
  }
  return list;
}

/// The options that no run can do without, and that `document` lacks.
std::vector<std::string> missing(const config::Node& document) {
  const config::Node* const model = document.find("model");
  const config::Node* const data = document.find("data");
  std::vector<std::string> list;
  if (!model || !model->find("path")) list.emplace_back("model.path");
  if (!data || !data->find("train")) list.emplace_back("data.train.path");
  if (!document.find("num_processes")) list.emplace_back("num_processes");
  return list;
}

void print_json(const std::string& file, const config::Conversion& done, const std::vector<std::string>& lacking,
                const std::string& output, const std::string& text) {
  nlohmann::ordered_json all{{"file", file},
                             {"program", done.dialect->program},
                             {"recognized_by", done.recognized_by},
                             {"options_set", done.translated.size()},
                             {"not_honored", json_of(done.not_honored, true)},
                             {"unknown", json_of(done.unknown, false)},  // a value can be a secret
                             {"undecided", json_of(done.undecided, true)},
                             {"to_be_added", lacking}};
  if (!output.empty()) all["output"] = output;
  all["configuration"] = text;
  fmt::print("{}\n", all.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace

int run_convert(const Arguments& arguments) {
  CLI::App app(
      "Convert the file of another trainer to a configuration file: axolotl's, LLaMA-Factory's or TRL's YAML, or a "
      "JSON or YAML file of TrainingArguments. Each key sets an option, or is listed with the reason why it is not "
      "honored and what to write instead.",
      "convert");
  app.footer(
      "Examples:\n  trainer convert qlora.yml -o job.yaml     then check it: trainer check job.yaml\n"
      "  trainer convert training_args.json        to standard output\n"
      "\nRun it in the folder where the other trainer runs: relative paths that\nexist there are rewritten for the new "
      "file. docs/converting.md lists the keys.\n");
  std::string file, output, from;
  bool overwrite = false, keys = false, json = false;
  app.add_option("FILE", file, "the file to convert");
  app.add_option("-o,--output", output, "the file to write; default: standard output");
  app.add_option("--from", from,
                 "axolotl, trl_sft, trl_dpo, llamafactory or training_arguments; default: recognized by its keys");
  app.add_flag("--overwrite", overwrite, "replace an existing file");
  app.add_flag("--keys", keys, "print a table of all keys instead, in Markdown");
  app.add_flag("--json", json,
               "print what happened to the keys, and the new file's text, as one JSON object, for scripts");
  if (!parse(app, arguments)) return 0;
  if (keys) {
    fmt::print("{}", config::conversion_tables());
    return 0;
  }
  if (file.empty()) throw ConfigError("convert needs the file to convert; `trainer convert --help` has examples");
  if (!output.empty() && !overwrite && fs::exists(output))
    throw ConfigError("{} exists; give another file, or --overwrite to replace it", output);
  const fs::path folder = output.empty() ? fs::current_path() : fs::absolute(output).parent_path();
  const config::Conversion done = config::convert(file, from, folder);
  const std::string text = config::file_text(done.document, config::format_of(output),
                                             fmt::format("`trainer convert` from {}", config::shown(file)));
  if (!output.empty()) write_configuration(output, text);
  const std::vector<std::string> lacking = missing(done.document);
  if (json) {
    print_json(file, done, lacking, output, text);
    return kDone;
  }
  if (output.empty()) fmt::print("{}", text);
  list_rest(file, done);
  if (!lacking.empty()) screen::error("to be added: {}\n", fmt::join(lacking, " "));
  if (!output.empty()) screen::error("written to {}; check it with: trainer check --config_file {}\n", output, output);
  return 0;
}

}  // namespace trainer::cli
