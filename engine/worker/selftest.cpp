#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/link.h"
#include "engine/base/screen.h"
#include "engine/config/plan/plan.h"
#include "engine/selftest/configuration.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/resume.h"
#include "engine/selftest/run.h"
#include "engine/selftest/table.h"
#include "engine/worker/commands.h"
#include "engine/worker/environment.h"
#include "engine/worker/meeting.h"

namespace trainer::worker {
namespace {

/// The cases whose name contains `text`. Throws ConfigError if there is none: nothing would be tested.
template <class Case>
std::vector<Case> only(const std::vector<Case>& cases, const std::string& text) {
  std::vector<Case> some;
  for (const Case& one : cases)
    if (one.name().find(text) != std::string::npos) some.push_back(one);
  if (some.empty() && !cases.empty())
    throw ConfigError(
        fmt::format("--only '{}': none of the {} cases has a name that contains this text. Names are like "
                    "'{}' or '{}'.",
                    text, cases.size(), cases.front().name(), cases.back().name()));
  return some;
}

/// The arguments of a self-test.
struct Request {
  std::string kind;  // "all", "pairwise", "random", "resume", "resume-all", "configuration", "configuration-silently"
  uint64_t seed = 0;
  int64_t count = 0;  // cases drawn by the seed; 0: all
  std::string text;   // that the cases' names contain
};

Request request_of(const std::vector<std::string>& args) {
  require(args.size() == 4, "selftest takes 4 arguments, not {}", args.size());
  return {args[0], std::stoull(args[1]), std::stoll(args[2]), args[3]};
}

std::vector<selftest::Setting> settings_for(const Request& request, const dist::Comm& comm) {
  const int ranks = comm.size();
  const bool on_devices = !comm.device().is_cpu();
  if (request.kind == "random")
    return only(selftest::random_settings(ranks, request.seed, request.count, on_devices), request.text);
  return only(
      request.kind == "all" ? selftest::full_matrix(ranks, on_devices) : selftest::pairwise_matrix(ranks, on_devices),
      request.text);
}

std::vector<selftest::ResumeCase> resumes_for(const Request& request, const dist::Comm& comm) {
  auto cases =
      only(selftest::resume_cases(comm.size(), request.kind == "resume-all", !comm.device().is_cpu()), request.text);
  return request.count == 0 ? cases : selftest::drawn(cases, request.seed, request.count);
}

/// Rank 0's progress report while cases run.
class Progress {
 public:
  Progress(Link& link, const Request& request, size_t cases, int ranks) : link_(link), cases_(cases) {
    if (request.count > 0) fmt::print("seed {}\n", request.seed);
    fmt::print("{} cases on {} {}\n", cases, ranks, ranks == 1 ? "rank" : "ranks");
    std::fflush(stdout);
  }
  /// Shows the current case in place of the previous one.
  void show(const std::string& name) {
    link_.report_step(static_cast<int64_t>(++done_), name);
    if (isatty(STDERR_FILENO) != 0) screen::error("{}{}/{}  {}", screen::kClearLine, done_, cases_, name);
  }
  void end(const std::string& table) const {
    if (isatty(STDERR_FILENO) != 0) screen::write(STDERR_FILENO, screen::kClearLine);
    fmt::print("{}", table);
    std::fflush(stdout);
  }

 private:
  Link& link_;
  size_t done_ = 0, cases_;
};

/// True when all cases pass.
bool compare_with_one_rank(Link& link, const Request& request, dist::Comm& comm) {
  const auto settings = settings_for(request, comm);
  std::optional<Progress> progress;
  if (comm.rank() == 0) progress.emplace(link, request, settings.size(), comm.size());
  const auto results =
      selftest::run(settings, comm, [&](const auto& result) { progress->show(result.setting.name()); });
  if (progress) progress->end(selftest::table(results));
  return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.difference.fits(); });
}

/// True when the strategy of the run's own plan gives the results of one rank.
bool test_this_configuration(Link& link, const Request& request, const config::Plan& plan, dist::Comm& comm) {
  const auto cases = selftest::configuration_cases(plan);
  std::optional<Progress> progress;
  const bool silent = request.kind == "configuration-silently";
  if (comm.rank() == 0 && !silent) progress.emplace(link, request, cases.size(), comm.size());
  const auto results = selftest::test_configuration(cases, comm, [&](const auto& result) {
    if (progress) progress->show(result.setting.name());
  });
  if (progress) progress->end(selftest::table(results));
  return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.difference.fits(); });
}

bool resume_everywhere(Link& link, const Request& request, const std::string& folder, dist::Comm& comm) {
  const auto cases = resumes_for(request, comm);
  std::optional<Progress> progress;
  if (comm.rank() == 0) progress.emplace(link, request, cases.size(), comm.size());
  const auto results =
      selftest::resume(cases, folder, comm, [&](const auto& result) { progress->show(result.which.name()); });
  if (progress) progress->end(selftest::table(results));
  return std::all_of(results.begin(), results.end(), [](const auto& r) { return r.problem.empty(); });
}

int run(Link& link, const Request& request) {
  at::set_num_threads(environment_number("OMP_NUM_THREADS"));
  at::set_num_interop_threads(1);
  const config::Plan plan = config::parse_plan(link.plan());
  const config::Config& config = plan.config;
  const auto comm = meet(link, config);
  const bool fit = request.kind.starts_with("configuration") ? test_this_configuration(link, request, plan, *comm)
                   : request.kind.starts_with("resume") ? resume_everywhere(link, request, config.output_dir, *comm)
                                                        : compare_with_one_rank(link, request, *comm);
  return fit ? kDone : kInternalFailure;
}

}  // namespace

int selftest_command(const std::vector<std::string>& args) {
  const auto link = Link::from_environment();
  if (!link) throw ConfigError("`trainer-worker selftest` is started by `trainer selftest`.");
  try {
    const Request request = request_of(args);
    const int code = run(*link, request);
    if (code == kDone)
      link->report_done();
    else
      link->report_failure(
          code, -1,
          request.kind.starts_with("configuration")
              ? "with this build on this machine, this configuration doesn't give the numbers of one rank."
          : request.kind.starts_with("resume")
              ? "with this build on this machine, not every strategy resumes what every other has saved."
              : "with this build on this machine, not every strategy gives the same numbers.");
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
