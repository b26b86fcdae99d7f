// Sends a run's records to an MLflow server during the run.
#pragma once

#include <chrono>
#include <filesystem>
#include <string>

#include "engine/tracking/metrics_tail.h"
#include "engine/tracking/mlflow.h"

namespace trainer::tracking {

/// The run to follow, as the launcher describes it.
struct Job {
  std::filesystem::path output_dir;
  bool resumes = false;  // from a checkpoint in output_dir
  std::string version;   // of trainer
};

/// Sends what is new in output_dir. While the server is away it tries again, ever more rarely up to once a minute, and
/// warns once; metrics.jsonl is the buffer, so nothing is lost and no memory grows. What a refusing server is not sent
/// stays in output_dir as well.
class Tracker {
 public:
  using Clock = std::chrono::steady_clock;

  Tracker(Job job, MlflowSettings settings);

  /// Sends what is new, if it is time to try. Takes as long as the server does.
  void advance();
  /// Sends the rest, the files and the status, within a few seconds.
  void finish(const std::string& status);

 private:
  void open_run();
  void send_metrics();
  /// Whether the server has all values and the status.
  bool send_rest(const std::string& status, std::string& why);
  void upload_files();
  void remember();
  void warn(const std::string& what, const std::string& then);

  Job job_;
  Mlflow mlflow_;
  Sent sent_;
  bool is_new_ = true;   // no run to continue
  std::string earlier_;  // the run of the checkpoint; "": none
  MetricsTail tail_;
  std::vector<Values> unsent_;
  bool is_open_ = false, has_parameters_ = false, is_refused_ = false, has_warned_ = false;
  Clock::time_point next_try_{};
  std::chrono::milliseconds pause_{0};
};

}  // namespace trainer::tracking
