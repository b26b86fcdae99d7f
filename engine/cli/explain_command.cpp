#include <fmt/format.h>

#include "engine/cli/flags.h"

namespace trainer::cli {

int run_explain(const Arguments& arguments) {
  CLI::App app("Prints every option with its value and where that came from.", "explain");
  PlanFlags flags(app);
  if (!parse(app, arguments)) return 0;
  fmt::print("{}", config::resolved_text(flags.resolve()));
  return 0;
}

}  // namespace trainer::cli
