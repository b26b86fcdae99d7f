#include <algorithm>
#include <iterator>

#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {
namespace {

/// `--show N`: the first samples of a configuration, as a run gets them.
int show_samples(const Arguments& arguments) {
  CLI::App app("Show the first samples of a configuration, as a run gets them.", "tokenize --show");
  PlanFlags flags(app);
  int64_t count = 3;
  app.add_option("--show", count)->check(CLI::Range(1, 1'000'000));
  if (!flags.parse(arguments)) return 0;
  const config::Plan plan = flags.resolve();
  become_program(prepare_path(), {"show", std::to_string(count)}, &plan);
}

}  // namespace

int run_tokenize(const Arguments& arguments) {
  const auto is_show = [](const std::string& word) { return word == "--show" || word.starts_with("--show="); };
  if (std::any_of(arguments.begin(), arguments.end(), is_show)) return show_samples(arguments);
  Arguments words{"tokenize"};
  std::transform(arguments.begin(), arguments.end(), std::back_inserter(words), with_underscores);
  become_program(prepare_path(), words, nullptr);
}

}  // namespace trainer::cli
