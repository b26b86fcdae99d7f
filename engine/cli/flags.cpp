#include "engine/cli/flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/help_text.h"
#include "engine/base/log.h"
#include "engine/cli/absent.h"
#include "engine/cli/launch_flags.h"
#include "engine/config/document/problems.h"
#include "engine/config/plan/files.h"
#include "engine/config/tables.h"

namespace trainer::cli {
namespace {

/// True when the file is complete: it also has Accelerate's part.
bool is_whole(const std::string& file) {
  config::Problems ignored;  // resolve_plan finds them again
  return config::read_document(file, ignored).find("distributed_type") != nullptr;
}

/// True when one of the files has the section.
bool has_section(const config::Sources& sources, const std::string& section) {
  config::Problems ignored;
  for (const std::string& file : {sources.file, sources.job_file})
    if (!file.empty() && config::read_document(file, ignored).find(section) != nullptr) return true;
  return false;
}

/// Errors: ConfigProblems, those of `found` that aren't about `path`.
[[noreturn]] void throw_without(const config::ConfigProblems& found, const std::string& path) {
  config::Problems others;
  for (const config::Problem& problem : found.problems())
    if (problem.path != path) others.add(problem.mark, problem.path, problem.message, problem.rule);
  others.throw_if_any();
  throw found;
}

/// A hint for an option that has no flag; "" when no option has that name.
std::string about_option(const std::string& flag) {
  std::string hint;
  config::each_entry(config::root_table(), [&](const std::string& path, const config::Entry& entry) {
    const bool is_it = !entry.children && flag.starts_with("--") && entry.has_key(flag.substr(2));
    if (!is_it || !hint.empty()) return;
    if (entry.foreign == config::Foreign::kUnsupported) {
      hint = fmt::format(", and {} is not supported: {}", path, entry.reason);
    } else if (entry.foreign == config::Foreign::kNoEffect) {
      hint = fmt::format(", and {} has no effect here: {}", path, entry.reason);
    } else {
      hint = fmt::format(": --set {}=VALUE sets that option", path);
    }
  });
  return hint;
}

[[noreturn]] void fail_unknown(const CLI::App& app, const std::string& argument) {
  const std::string name = argument.substr(0, argument.find('='));
  const std::string way = instead_of(name);
  const bool has_options = app.get_option_no_throw("--set") != nullptr;
  const std::string hint = !way.empty() ? ": " + way : has_options ? about_option(name) : "";
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
  throw ConfigError("'{}' is not a flag of `trainer {}`{}", config::shown(name), app.get_name(),
                    hint.empty() ? did_you_mean(name, names) : hint);
}

/// `accelerate launch train.py` and torchrun take scripts.
void refuse_script(const Arguments& arguments, const std::string& command) {
  for (const std::string& argument : arguments) {
    if (!argument.ends_with(".py") || argument.starts_with("-")) continue;
    throw ConfigError(
        "{}: trainer does not run Python scripts or accept their arguments\n"
        "The configuration says what to train, on which data and how: `trainer config` asks and writes the file,\n"
        "`trainer {} [--config_file ACCELERATE.yaml] JOB.yaml` uses it; configs/README.md lists every option",
        argument, command);
  }
}

}  // namespace

std::string with_underscores(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string out = argument;
  std::replace(out.begin() + 2, out.begin() + std::min(out.find('='), out.size()), '-', '_');
  return out;
}

bool parse(CLI::App& app, const Arguments& arguments) {
  std::vector<std::string> reversed;
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) reversed.push_back(with_underscores(*it));
  app.allow_extras();
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", help_in_80_columns(app.help("trainer")));
    return false;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("{}; `trainer {} --help` lists the flags", config::shown(error.what(), 300), app.get_name());
  }
  const auto unknown = app.remaining();
  if (!unknown.empty()) fail_unknown(app, unknown.front());
  return true;
}

PlanFlags::PlanFlags(CLI::App& app) : app_(app) {
  app.add_option("job", words_);
  app.add_option("--config_file", config_file_)->take_last();
  app.add_option("--set", sets_)->expected(1)->take_all();
  for (const LaunchFlag& flag : launch_flags()) {
    std::string names = flag.name;
    for (const std::string& other : flag.others) names += "," + other;
    app.add_option(names, values_[flag.name])->expected(1)->take_all()->allow_extra_args(false);
  }
}

bool PlanFlags::parse(const Arguments& arguments) {
  for (const char* help : {"-h", "--help"}) {
    if (std::find(arguments.begin(), arguments.end(), help) == arguments.end()) continue;
    fmt::print("{}", help_in_80_columns(launch_help(app_)));
    return false;
  }
  refuse_script(arguments, app_.get_name());
  return cli::parse(app_, with_values(arguments));
}

Arguments PlanFlags::with_values(const Arguments& arguments) const {
  auto is_truth = [](const std::string& name) {
    const auto& flags = launch_flags();
    return std::any_of(flags.begin(), flags.end(), [&](const LaunchFlag& flag) {
      const auto& others = flag.others;
      return flag.is_truth() && (flag.name == name || std::find(others.begin(), others.end(), name) != others.end());
    });
  };
  Arguments out;
  for (auto it = arguments.begin(); it != arguments.end(); ++it) {
    out.push_back(with_underscores(*it));
    if (it->starts_with("--") && it->ends_with("=")) {  // an empty value: CLI11 would take the next argument instead
      out.back().pop_back();
      out.emplace_back();
    }
    if (!it->starts_with("-") || !is_truth(out.back())) continue;
    const bool followed = it + 1 != arguments.end() && config::parse_bool(*(it + 1));
    out.push_back(followed ? *++it : "true");
  }
  return out;
}

Asked PlanFlags::of_flags() const {
  Asked asked;
  for (const LaunchFlag& flag : launch_flags()) {
    const auto& values = values_.at(flag.name);
    if (!values.empty()) ask(flag, values.back(), asked);
  }
  finish(asked);
  return asked;
}

Asked PlanFlags::asked() const {
  if (words_.size() > 1) {
    throw ConfigError("'{}' and '{}': only one JOB.yaml can be given; pass Accelerate's own file with --config_file",
                      config::shown(words_[0]), config::shown(words_[1]));
  }
  Asked asked = of_flags();
  config::Sources& sources = asked.sources;
  sources.file = config_file_;
  sources.job_file = words_.empty() ? "" : words_[0];
  if (sources.file.empty() && !sources.job_file.empty() && is_whole(sources.job_file))
    std::swap(sources.file, sources.job_file);
  if (sources.file.empty()) {
    const config::DefaultFile found = config::find_default_file();
    if (found.path.empty() && sources.job_file.empty()) {
      throw ConfigError("no configuration file found: pass one with --config_file, or create {} with `trainer config`",
                        config::own_default_file());
    }
    sources.file = found.path;
    if (!found.note.empty()) log::info("{}", found.note);
  }
  for (const std::string& set : sets_) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw ConfigError("--set {}: must be section.key=value", config::shown(set));
    asked.set(set.substr(0, equals), set.substr(equals + 1), "--set");
  }
  return asked;
}

config::Plan PlanFlags::resolve(bool to_run) const {
  Asked given = asked();
  given.sources.to_run = to_run;
  return config::resolve_plan(given.sources);
}

config::Plan PlanFlags::resolve_for_test() const {
  Asked given = asked();
  given.sources.to_run = false;
  // Accelerate's own file: the rules about a model and its task then allow every strategy that some model supports.
  if (!has_section(given.sources, "model")) given.set("model.config", "{model_type: gpt2}", "trainer test");
  if (!has_section(given.sources, "data")) given.set("data.task", "causal_lm", "trainer test");
  try {
    return config::resolve_plan(given.sources);
  } catch (const config::ConfigProblems& found) {  // reported with others only
    throw_without(found, "data.train.path");
  }
}

config::Plan PlanFlags::resolve_for_scheduler() const {
  Asked given = asked();
  given.sources.to_run = false;
  given.set("main_process_ip", "machine-0", "--emit");
  return config::resolve_plan(given.sources);
}

}  // namespace trainer::cli
