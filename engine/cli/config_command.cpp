#include <filesystem>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/cli/flags.h"
#include "engine/cli/terminal.h"
#include "engine/config/files.h"
#include "engine/config/reference.h"
#include "engine/config/wizard.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

struct Wanted {
  std::string file, answers;
  bool yes = false;
};

/// What the wizard starts from: the file that is there, or defaults for a new one.
config::Prefill start_from(const std::string& file) {
  if (fs::exists(file)) return config::read_prefill(file);
  config::Prefill fresh;
  fresh.config.use_cpu = true;  // all that this version can do; otherwise every launch would warn
  fresh.config.num_processes = 1;
  return fresh;
}

void write_file(const std::string& file, const std::string& text) {
  const fs::path folder = fs::absolute(file).parent_path();
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  publish_file(file, text);
}

/// Says what is still missing, if anything: the wizard may have been used for Accelerate's part only.
void report(const std::string& file) {
  fmt::print("\nconfiguration saved at {}\n", file);
  try {
    config::resolve_plan({file, "", {}});
  } catch (const ConfigError& error) {
    fmt::print("It is not complete yet:\n{}\n", error.what());
  }
  const bool is_default = file == config::own_default_file();
  fmt::print("run it with: trainer launch{}\n", is_default ? "" : " --config_file " + file);
}

void write_configuration(const Wanted& wanted) {
  config::Prefill prefill = start_from(wanted.file);
  config::Config config = prefill.config;
  if (!wanted.answers.empty()) {
    config::apply_answers(wanted.answers, config);
  } else if (!wanted.yes) {
    config::ask_questions(config, *make_prompter());
  }
  write_file(wanted.file, config::file_text(config, prefill.config, prefill.document));
  report(wanted.file);
}

}  // namespace

int run_config(const Arguments& arguments) {
  CLI::App app(
      "Asks what to train and how, and writes the configuration file. `trainer config reference` prints a page "
      "with every option.",
      "config");
  Wanted wanted;
  std::string page;
  app.add_option("page", page, "reference: print the page instead of asking")->check(CLI::IsMember({"reference"}));
  app.add_option("--config_file", wanted.file, "File to write; one that is there supplies the defaults");
  app.add_option("--answers", wanted.answers,
                 "YAML file with the answers, by the names of the options; nothing is asked");
  app.add_flag("--yes,-y", wanted.yes, "Keeps every default without asking");
  if (!parse(app, arguments)) return 0;
  if (page == "reference") {
    fmt::print("{}", config::reference_page());
    return 0;
  }
  if (wanted.file.empty()) wanted.file = config::own_default_file();
  write_configuration(wanted);
  return 0;
}

}  // namespace trainer::cli
