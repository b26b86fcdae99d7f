#include "engine/cli/program.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"
#include "engine/base/log.h"
#include "engine/base/uncaught.h"
#include "engine/cli/absent.h"
#include "engine/config/document/problems.h"

namespace trainer::cli {
namespace {

void print_help() {
  fmt::print("trainer {} trains transformer models from one YAML file.\n\nUsage: trainer COMMAND [OPTIONS]\n\n",
             TRAINER_VERSION);
  for (const Command& command : commands()) fmt::print("  {:<17}{}\n", command.name, command.help);
  fmt::print("\n`trainer COMMAND --help` describes a command.\n");
}

[[noreturn]] void fail_unknown(const std::string& name) {
  std::vector<std::string> names;
  for (const Command& command : commands()) names.emplace_back(command.name);
  if (const std::string way = instead_of(name); !way.empty())
    throw ConfigError("there is no command '{}': {}", config::shown(name), way);
  throw ConfigError("there is no command '{}'{}; `trainer --help` lists them", config::shown(name),
                    did_you_mean(name, names));
}

int dispatch(const Arguments& arguments) {
  if (arguments.empty()) {
    print_help();
    return kUsageFailure;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_help();
    return kDone;
  }
  if (name == "--version") {
    fmt::print("{}\n", version_text());
    return kDone;
  }
  for (const Command& command : commands()) {
    if (name == command.name) return command.run(Arguments(arguments.begin() + 1, arguments.end()));
  }
  fail_unknown(name);
}

}  // namespace

std::string version_text() {
  return fmt::format("trainer {} ({})", TRAINER_VERSION, TRAINER_BUILT_WITH);
}

int run(const Arguments& arguments) {
  log::open(log::Level::kInfo, "");
  try {
    return dispatch(arguments);
  } catch (const std::exception& error) {
    return end_uncaught(error, STDERR_FILENO);
  }
}

}  // namespace trainer::cli
