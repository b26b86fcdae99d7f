#include "engine/tracking/tracker.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <utility>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/safe_text.h"
#include "engine/base/screen.h"
#include "engine/config/document/document.h"
#include "engine/config/document/problems.h"

namespace trainer::tracking {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kState = "mlflow.json";
constexpr size_t kMostLines = 100;  // sent together
constexpr std::chrono::milliseconds kFirstPause = 1s, kLongestPause = 60s;
constexpr auto kLastPatience = 10s;  // for what is left when the run has ended
constexpr int64_t kMostOfState = 1 << 16, kMostOfSettings = 1 << 20;

/// Over an unfinished progress bar, as the launcher writes.
void say(const std::string& text) {
  screen::write(STDERR_FILENO, screen::over_progress_bar(STDERR_FILENO) + safe_text(text));
}

nlohmann::json state_in(const fs::path& folder) {
  try {
    return bounded_json_or_none(read_file(folder / kState, kMostOfState));
  } catch (const Error&) {
    return {};
  }
}

template <class T>
T value_in(const nlohmann::json& json, const char* key, T fallback) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  if (!json.is_object() || found == json.end()) return fallback;
  if constexpr (std::is_same_v<T, std::string>)
    return found->is_string() ? found->get<std::string>() : fallback;
  else
    return found->is_number_integer() ? found->get<T>() : fallback;
}

void flatten(const config::Node& node, const std::string& path, Mlflow::Pairs& pairs) {
  if (!node.is_map()) {
    pairs.emplace_back(path, node.is_scalar() ? node.text : config::text_of(node));
    return;
  }
  for (const config::Member& member : node.members)
    flatten(member.value, path.empty() ? member.key : path + "." + member.key, pairs);
}

/// The options of the run, by their full names.
Mlflow::Pairs parameters_in(const fs::path& file) {
  config::Problems problems;
  Mlflow::Pairs pairs;
  flatten(config::parse_yaml(read_file(file, kMostOfSettings), file.string(), problems), "", pairs);
  return pairs;
}

Sent sent_in(const nlohmann::json& state) {
  return {value_in<int64_t>(state, "sent_step", -1), value_in<int64_t>(state, "sent_evaluation", -1)};
}

}  // namespace

Tracker::Tracker(Job job, MlflowSettings settings)
    : job_(std::move(job)),
      mlflow_(std::move(settings)),
      sent_(job_.resumes ? sent_in(state_in(job_.output_dir)) : Sent{}),
      earlier_(job_.resumes ? value_in<std::string>(state_in(job_.output_dir), "run_id", "") : ""),
      tail_(job_.output_dir / "metrics.jsonl", !job_.resumes, sent_) {}

void Tracker::open_run() {
  if (mlflow_.continue_run(earlier_)) {
    has_parameters_ = value_in<int64_t>(state_in(job_.output_dir), "sent_parameters", 0) != 0 && !earlier_.empty();
  } else {
    if (!earlier_.empty()) {  // the server lost it: all of it is sent again
      sent_ = {};
      tail_ = MetricsTail(job_.output_dir / "metrics.jsonl", false, sent_);
      unsent_.clear();
    }
    const char* const user = std::getenv("USER");
    mlflow_.create_run(fs::path(job_.output_dir).filename().string(), {{"mlflow.user", user != nullptr ? user : ""},
                                                                       {"mlflow.source.name", "trainer"},
                                                                       {"mlflow.source.type", "LOCAL"},
                                                                       {"trainer.version", job_.version}});
  }
  is_open_ = true;
  remember();
  say(fmt::format("trainer: MLflow shows this run at {}\n", mlflow_.page()));
}

void Tracker::remember() {
  const nlohmann::ordered_json state = {{"tracking_uri", mlflow_.address()},
                                        {"run_id", mlflow_.run_id()},
                                        {"sent_parameters", has_parameters_ ? 1 : 0},
                                        {"sent_step", sent_.step},
                                        {"sent_evaluation", sent_.evaluation}};
  try {
    publish_file(job_.output_dir / kState, state.dump(2) + "\n");
  } catch (const MachineError& error) {  // a full disk: a resumed run would only send some of it twice
  }
}

void Tracker::send_metrics() {
  if (const fs::path file = job_.output_dir / "config.resolved.yaml"; !has_parameters_ && fs::exists(file)) {
    try {
      mlflow_.log_parameters(parameters_in(file));
    } catch (const ServerRefuses& refusal) {  // such as another value in the run of MLFLOW_RUN_ID
      warn(refusal.what(), "its options are not sent.");
    }
    has_parameters_ = true;
    remember();
  }
  for (;;) {
    if (unsent_.empty()) unsent_ = tail_.next(kMostLines);
    if (unsent_.empty()) return;
    mlflow_.log_metrics(unsent_);
    for (const Values& line : unsent_) (line.is_evaluation ? sent_.evaluation : sent_.step) = line.step;
    unsent_.clear();
    remember();
  }
}

void Tracker::warn(const std::string& what, const std::string& then) {
  if (std::exchange(has_warned_, true)) return;
  say(fmt::format("trainer: warning: MLflow at {}: {}\n  Training continues; {}\n", mlflow_.address(), what, then));
}

void Tracker::advance() {
  if (is_refused_ || Clock::now() < next_try_) return;
  try {
    if (!is_open_) open_run();
    send_metrics();
    pause_ = 0ms;
  } catch (const ServerAway& away) {
    pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
    next_try_ = Clock::now() + pause_;
    warn(away.what(), "its metrics are sent when the server answers.");
  } catch (const ServerRefuses& refusal) {
    is_refused_ = true;
    warn(refusal.what(), "nothing is sent there. Its metrics are in metrics.jsonl.");
  } catch (const Error& error) {  // a file of the run that can't be read
    is_refused_ = true;
    warn(error.what(), "nothing more is sent there.");
  }
}

void Tracker::upload_files() {
  for (const char* name : {"report.html", "config.resolved.yaml", "metrics.jsonl", "README.md"}) {
    const fs::path file = job_.output_dir / name;
    if (!fs::exists(file) || mlflow_.upload(file)) continue;
    say("trainer: MLflow: files are not uploaded: the server keeps them elsewhere (start it with --serve-artifacts)\n");
    return;
  }
}

bool Tracker::send_rest(const std::string& status, std::string& why) {
  const Clock::time_point end = Clock::now() + kLastPatience;
  while (!is_refused_ && Clock::now() < end) {
    mlflow_.set_patience(std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()) + 100ms);
    try {
      if (!is_open_) open_run();
      send_metrics();
      mlflow_.finish(status);
      return true;
    } catch (const ServerAway& away) {
      why = away.what();
      std::this_thread::sleep_for(500ms);
    } catch (const std::exception& error) {
      why = error.what();
      break;
    }
  }
  return false;
}

void Tracker::finish(const std::string& status) {
  std::string why;
  if (!send_rest(status, why)) {
    say(fmt::format(
        "trainer: MLflow at {} doesn't have all of this run{}{}\n  It is in {}; resuming the run sends the rest.\n",
        mlflow_.address(), why.empty() ? "." : ": ", why, (job_.output_dir / "metrics.jsonl").string()));
    return;
  }
  try {  // last: a large or refused file must not keep the run open
    upload_files();
  } catch (const std::exception& error) {
    say(fmt::format("trainer: MLflow at {}: not all files were uploaded: {}\n", mlflow_.address(), error.what()));
  }
}

}  // namespace trainer::tracking
