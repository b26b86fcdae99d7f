#include <unistd.h>

#include <optional>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/base/safe_text.h"
#include "engine/cli/explain_option.h"
#include "engine/cli/flags.h"
#include "engine/config/machine/environment.h"

namespace trainer::cli {
namespace {

/// Removes and returns the words that name options; the rest belong to the plan.
std::vector<std::string> take_options(std::vector<std::string>& words) {
  std::vector<std::string> names, rest;
  for (const std::string& word : words) (is_option(word) ? names : rest).push_back(word);
  words = rest;
  return names;
}

bool looks_like_file(const std::string& word) {
  return word.ends_with(".yaml") || word.ends_with(".yml") || word.ends_with(".json") ||
         word.find('/') != std::string::npos || access(word.c_str(), F_OK) == 0;
}

void explain_options(const std::vector<std::string>& names, const PlanFlags& flags) {
  std::optional<config::Plan> plan;
  std::string why_not;
  if (flags.names_file()) {
    try {
      plan = flags.resolve();
    } catch (const ConfigError& error) {
      why_not = error.what();
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    fmt::print("{}{}", i > 0 ? "\n" : "", explain_option(names[i], plan ? &*plan : nullptr));
  if (!why_not.empty()) throw ConfigError("{}\nfix the problem above to see its value", why_not);
}

}  // namespace

int run_explain(const Arguments& arguments) {
  CLI::App app("Print every option with its value and where the value came from, or describe one option.", "explain");
  app.footer(
      "       trainer explain OPTION… [--config_file FILE] [JOB.yaml]\n"
      "\nExamples:\n  trainer explain t5.yaml\n"
      "  trainer explain training.learning_rate fsdp_offload_params\n"
      "  trainer explain checkpoint t5.yaml       the options of a section, as the file sets them\n");
  PlanFlags flags(app);
  if (!flags.parse(arguments)) return 0;
  const auto options = take_options(flags.words());
  for (const std::string& word : flags.words()) {
    if (!looks_like_file(word)) throw ConfigError("'{}' is neither an option nor a file{}", word, nearest_option(word));
  }
  if (options.empty()) {
    fmt::print("{}", config::explained_text(flags.resolve()));
    const std::vector<std::string> variables = config::vendor_variables();
    if (!variables.empty())
      fmt::print("# Passed to the ranks from the environment: {}\n",
                 safe_text(fmt::format("{}", fmt::join(variables, " "))));
  } else {
    explain_options(options, flags);
  }
  return 0;
}

}  // namespace trainer::cli
