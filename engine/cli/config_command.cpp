#include <filesystem>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/cli/config_wizard.h"
#include "engine/cli/flags.h"
#include "engine/cli/foreign_tables.h"
#include "engine/config/pages/file_text.h"
#include "engine/config/pages/json_schema.h"
#include "engine/config/pages/reference.h"
#include "engine/config/plan/files.h"
#include "engine/config/wizard/draft.h"
#include "engine/config/wizard/machine.h"

namespace trainer::cli {
namespace {

/// `config default`: Accelerate's keys for this machine.
void write_default(const std::string& file, const std::string& mixed_precision) {
  if (std::filesystem::exists(file)) {
    fmt::print(
        "Configuration already exists at {}, will not override. Run `trainer config` manually or pass a different "
        "--config_file.\n",
        file);
    return;
  }
  const auto gpus = static_cast<int64_t>(config::read_machine().gpus.size());
  config::WizardDraft draft;
  const auto type = gpus > 1 ? config::DistributedType::kMultiGpu : config::DistributedType::kNo;
  draft.assign("distributed_type", config::encode(type));
  draft.assign("num_processes", config::encode(std::max<int64_t>(gpus, 1)));
  draft.assign("use_cpu", config::encode(gpus == 0));
  draft.assign("mixed_precision", config::Node::scalar(mixed_precision));
  config::add_frame(config::Frame::kDefaults, draft);
  write_configuration(file, config::file_text(draft.document, config::format_of(file)));
  fmt::print("configuration saved at {}\n", file);
}

/// `config update`: rewrites the file with the current key names and defaults.
void update(const std::string& file) {
  if (!std::filesystem::exists(file)) throw ConfigError("The passed config file located at {} doesn't exist.", file);
  config::WizardDraft draft = config::read_draft(file);
  config::add_frame(config::Frame::kDefaults, draft);
  write_configuration(file, config::file_text(draft.document, config::format_of(file)));
  fmt::print("Successfully updated the configuration file at {}.\n", file);
}

}  // namespace

int run_config(const Arguments& arguments) {
  CLI::App app("Ask what to train and how, and write the configuration file.", "config");
  app.footer(
      "Examples:\n  trainer config --config_file t5.yaml\n"
      "  trainer config --config_file t5.yaml --answers answers.yaml   asks nothing\n"
      "  trainer config default\n");
  WizardOptions options;
  std::string what, mixed_precision = "no";
  app.add_option(
         "what", what,
         "default: write a file with Accelerate's defaults for this machine. update: rewrite a file with the "
         "current key names and defaults. reference: print a page that lists every option. foreign: print tables of "
         "what happens to other programs' keys and flags. schema: print a JSON schema for editors")
      ->check(CLI::IsMember({"default", "update", "reference", "foreign", "schema"}));
  app.add_option("--config_file", options.file, "File to write; if it exists, its values are the defaults");
  app.add_option("--answers", options.answers,
                 "YAML file with the answers, keyed by option name; no questions are asked");
  app.add_flag("--yes,-y", options.yes, "Accept every default without asking");
  app.add_option("--mixed_precision", mixed_precision, "For `config default`")
      ->check(CLI::IsMember({"no", "fp16", "bf16"}));
  if (!parse(app, arguments)) return 0;
  if (options.file.empty()) options.file = config::own_default_file();
  if (what == "reference") {
    fmt::print("{}", config::reference_page());
  } else if (what == "foreign") {
    fmt::print("{}", foreign_tables());
  } else if (what == "schema") {
    fmt::print("{}", config::json_schema());
  } else if (what == "default") {
    write_default(options.file, mixed_precision);
  } else if (what == "update") {
    update(options.file);
  } else {
    run_wizard(options);
  }
  return 0;
}

}  // namespace trainer::cli
