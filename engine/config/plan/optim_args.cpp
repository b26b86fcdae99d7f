#include "engine/config/plan/optim_args.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <fmt/ranges.h>

#include "engine/base/errors.h"
#include "engine/config/document/problems.h"
#include "engine/config/document/scalar.h"
#include "engine/config/names.h"

namespace trainer::config {
namespace {

std::string names_of(std::span<const OptimArg> args) {
  std::vector<std::string_view> names;
  for (const OptimArg& arg : args) names.push_back(arg.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

double read_value(const OptimArg& arg, const std::string& text) {
  if (arg.is_switch) {
    if (const auto truth = parse_bool(text)) return *truth ? 1 : 0;
    throw ConfigError("{} is {}, but must be true or false", arg.name, shown(text));
  }
  if (!arg.choices.empty()) {
    const auto choice = std::find(arg.choices.begin(), arg.choices.end(), text);
    if (choice != arg.choices.end()) return static_cast<double>(choice - arg.choices.begin());
    throw ConfigError("{} is {}, but must be {}", arg.name, shown(text), fmt::join(arg.choices, " or "));
  }
  const auto number = parse_double(text);
  if (!number || *number < 0 || (arg.is_integer && *number != std::floor(*number)))
    throw ConfigError("{} is {}, but must be {} of at least 0", arg.name, shown(text),
                      arg.is_integer ? "an integer" : "a number");
  return *number;
}

void read_one(OptimizerName optim, const std::string& given, OptimArgs& into) {
  const size_t equals = given.find('=');
  if (equals == std::string::npos) throw ConfigError("{} is not key=value", shown(given));
  const std::vector<std::string> key = split(given.substr(0, equals), ' '),
                                 value = split(given.substr(equals + 1), ' ');
  const std::string name = key.size() == 1 ? key[0] : given.substr(0, equals);
  const std::span<const OptimArg> args = options_of(optim).args;
  const auto known = std::find_if(args.begin(), args.end(), [&](const OptimArg& arg) { return arg.name == name; });
  if (name == "weight_decay") throw ConfigError("set training.weight_decay instead of weight_decay");
  if (known == args.end())
    throw ConfigError("{} has no argument {}; its arguments are {}", name_of(optim), shown(name), names_of(args));
  if (!into.values.emplace(name, read_value(*known, value.size() == 1 ? value[0] : "")).second)
    throw ConfigError("{} is given twice", name);
}

}  // namespace

bool takes_optim_args(OptimizerName optim) {
  return !options_of(optim).args.empty();
}

OptimArgs read_optim_args(const TrainingConfig& training) {
  OptimArgs args;
  if (!takes_optim_args(training.optim)) return args;
  for (const std::string& given : split(training.optim_args, ',')) read_one(training.optim, given, args);
  const double momentum = args.get("momentum", training.sgd_momentum);
  if (training.optim != OptimizerName::kSgd) return args;
  if (training.sgd_momentum != 0 && momentum != training.sgd_momentum)
    throw ConfigError("momentum is {}, but training.sgd_momentum is {}", momentum, training.sgd_momentum);
  if (args.get("nesterov", 0) != 0 && (momentum == 0 || args.get("dampening", 0) != 0))
    throw ConfigError("nesterov needs momentum above 0 and no dampening; they are {} and {}", momentum,
                      args.get("dampening", 0));
  return args;
}

}  // namespace trainer::config
