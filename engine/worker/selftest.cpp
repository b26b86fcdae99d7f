#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/link.h"
#include "engine/config/plan.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/run.h"
#include "engine/selftest/table.h"
#include "engine/worker/commands.h"
#include "engine/worker/environment.h"
#include "engine/worker/meeting.h"

namespace trainer::worker {
namespace {

std::vector<selftest::Setting> settings_for(const std::vector<std::string>& args, int ranks) {
  require(args.size() == 2 || (args.size() == 4 && args[0] == "random"), "a self-test with {} words", args.size());
  auto settings = args[0] == "random" ? selftest::random_settings(ranks, std::stoull(args[1]), std::stoll(args[2]))
                  : args[0] == "all"  ? selftest::full_matrix(ranks)
                                      : selftest::pairwise_matrix(ranks);
  std::erase_if(settings, [&](const auto& setting) { return setting.name().find(args.back()) == std::string::npos; });
  return settings;
}

/// The case under way, over the one before it.
void show_progress(const selftest::Result& result, size_t done, size_t all) {
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K{}/{}  {}", done, all, result.setting.name());
}

int run(Link& link, const std::vector<std::string>& args) {
  const int rank = environment_number("RANK"), ranks = environment_number("WORLD_SIZE");
  at::set_num_threads(environment_number("OMP_NUM_THREADS"));
  at::set_num_interop_threads(1);
  const auto comm = meet(link, config::parse_plan(link.plan()).config);
  const auto settings = settings_for(args, ranks);
  if (rank == 0) {
    if (args[0] == "random") fmt::print("seed {}\n", args[1]);
    fmt::print("{} cases on {} ranks\n", settings.size(), ranks);
    std::fflush(stdout);
  }
  size_t done = 0;
  const auto results = selftest::run(settings, *comm, [&](const selftest::Result& result) {
    link.report_step(static_cast<int64_t>(++done), result.setting.name());
    show_progress(result, done, settings.size());
  });
  if (rank != 0) return kDone;
  if (isatty(STDERR_FILENO) != 0) fmt::print(stderr, "\r\x1b[K");
  fmt::print("{}", selftest::table(results));
  std::fflush(stdout);
  const bool fit = std::all_of(results.begin(), results.end(), [](const auto& r) { return r.difference.fits(); });
  return fit ? kDone : kInternalFailure;
}

}  // namespace

int selftest_command(const std::vector<std::string>& args) {
  const auto link = Link::from_environment();
  if (!link) throw ConfigError("`trainer-worker selftest` is started by `trainer selftest`.");
  try {
    const int code = run(*link, args);
    if (code == kDone)
      link->report_done();
    else
      link->report_failure(code, -1, "this machine or this build does not give the same numbers under every strategy.");
    return code;
  } catch (const Error& error) {
    link->report_failure(error.code(), -1, error.what());
    std::_Exit(error.code());
  } catch (const std::exception& error) {
    link->report_failure(kInternalFailure, -1, error.what());
    std::_Exit(kInternalFailure);
  }
}

}  // namespace trainer::worker
