#include "engine/cli/flags.h"

#include <algorithm>

#include <fmt/format.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/config/files.h"
#include "engine/config/reader.h"
#include "engine/config/tables.h"

namespace trainer::cli {
namespace {

std::string with_underscores(const std::string& argument) {
  if (!argument.starts_with("--")) return argument;
  std::string out = argument;
  std::replace(out.begin() + 2, out.begin() + std::min(out.find('='), out.size()), '-', '_');
  return out;
}

/// True when the file stands for itself: it has Accelerate's part too.
bool is_whole(const std::string& file) {
  config::Problems ignored;  // resolve_plan finds them again
  return config::read_yaml_file(file, ignored).find("distributed_type") != nullptr;
}

std::string flag_name(const std::string& path) {
  return "--" + path.substr(path.rfind('.') + 1);
}

}  // namespace

bool parse(CLI::App& app, const Arguments& arguments) {
  std::vector<std::string> reversed;
  for (auto it = arguments.rbegin(); it != arguments.rend(); ++it) reversed.push_back(with_underscores(*it));
  app.allow_extras();
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return false;
  } catch (const CLI::ParseError& error) {
    throw ConfigError("{}; `trainer {} --help` lists the flags", error.what(), app.get_name());
  }
  const auto unknown = app.remaining();
  if (unknown.empty()) return true;
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) names.push_back(option->get_name());
  const std::string name = unknown.front().substr(0, unknown.front().find('='));
  throw ConfigError("'{}' is not a flag of `trainer {}`{}", name, app.get_name(), did_you_mean(name, names));
}

PlanFlags::PlanFlags(CLI::App& app) : app_(app) {
  app.add_option("job", job_file_, "YAML file with the sections that Accelerate doesn't know")->type_name("JOB.yaml");
  app.add_option("--config_file", config_file_, "Accelerate's YAML file, with our sections or without")
      ->type_name("FILE");
  app.add_option("--set", sets_, "Sets one option: section.key=value; may be given several times")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->take_all();
  app.add_flag("--cpu", cpu_, "Trains on the CPU: use_cpu=true");
  app.add_flag("--use_fsdp", use_fsdp_, "distributed_type=FSDP");
  add_option_flags(app);
}

void PlanFlags::add_option_flags(CLI::App& app) {
  const config::Config defaults;
  config::walk(config::root_table(), &defaults, [&](const std::string& path, const config::Entry& entry, const void*) {
    if (entry.children) return path == "fsdp_config";
    const bool top = path.find('.') == std::string::npos;
    if (top && entry.foreign != config::Foreign::kNot) return false;
    std::string& value = values_[path];
    const bool truth = entry.kind.words == "true or false";
    const std::string help = entry.help + (entry.kind.choices.empty() ? "" : fmt::format(" ({})", entry.kind.words));
    CLI::Option* flag =
        top && truth ? app.add_flag(flag_name(path), value, help) : app.add_option(flag_name(path), value, help);
    flag->group(entry.foreign == config::Foreign::kUnsupported ? "" : top ? "Options" : "FSDP");
    return false;
  });
}

config::Sources PlanFlags::sources() const {
  config::Sources sources;
  sources.file = config_file_;
  sources.job_file = job_file_;
  if (sources.file.empty() && !job_file_.empty() && is_whole(job_file_)) std::swap(sources.file, sources.job_file);
  if (sources.file.empty()) {
    const config::DefaultFile found = config::find_default_file();
    if (found.path.empty() && job_file_.empty()) {
      throw ConfigError("there is no configuration file: name one with --config_file, or make {} with `trainer config`",
                        config::own_default_file());
    }
    sources.file = found.path;
    if (!found.note.empty()) log::info("{}", found.note);
  }
  for (const auto& [path, value] : values_) {
    if (app_.get_option(flag_name(path))->count() > 0) sources.overrides.push_back({path, value, flag_name(path)});
  }
  if (cpu_) sources.overrides.push_back({"use_cpu", "true", "--cpu"});
  if (use_fsdp_) sources.overrides.push_back({"distributed_type", "FSDP", "--use_fsdp"});
  for (const std::string& set : sets_) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0) throw ConfigError("--set {}: must be section.key=value", set);
    sources.overrides.push_back({set.substr(0, equals), set.substr(equals + 1), "--set"});
  }
  return sources;
}

config::Plan PlanFlags::resolve() const {
  config::Plan plan = config::resolve_plan(sources());
  for (const std::string& warning : plan.warnings) log::warning("warning: {}", warning);
  return plan;
}

}  // namespace trainer::cli
