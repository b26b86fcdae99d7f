// A run on an MLflow server, through its REST API, version 2.0: https://mlflow.org/docs/latest/rest-api.html
#pragma once

#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "engine/tracking/metrics_tail.h"
#include "engine/tracking/mlflow_settings.h"

namespace trainer::tracking {

/// The server wasn't reached, or failed; later it may work.
class ServerAway : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The server refuses the request, and would refuse it again.
class ServerRefuses : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Errors of all requests: ServerAway, ServerRefuses.
class Mlflow {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;

  static constexpr size_t kMostMetrics = 1000;  // in one request, by MLflow's limits
  static constexpr size_t kMostParameters = 100;

  explicit Mlflow(MlflowSettings settings) : settings_(std::move(settings)) {}

  /// Each request may take this long.
  void set_patience(std::chrono::milliseconds patience) { patience_ = patience; }

  /// Makes `run_id`, or the one of MLFLOW_RUN_ID, active again; false when the server has no such run.
  bool continue_run(const std::string& run_id);
  /// Creates a run named `name` unless MLFLOW_RUN_NAME is set, in the experiment of the settings, which is created if
  /// needed.
  void create_run(const std::string& name, const Pairs& tags);

  void log_parameters(const Pairs& parameters);
  /// At most kMostMetrics numbers are in one request.
  void log_metrics(const std::vector<Values>& lines);
  /// False when the server leaves artifacts to a storage that only its own client can write.
  bool upload(const std::filesystem::path& file);
  /// FINISHED, FAILED or KILLED.
  void finish(const std::string& status);

  const std::string& run_id() const { return run_id_; }
  /// The address of the server, without a password.
  const std::string& address() const { return settings_.server.address; }
  /// The run's page.
  std::string page() const;

 private:
  std::string experiment();
  void take(const nlohmann::json& run);
  nlohmann::json get(const std::string& call);
  nlohmann::json post(const std::string& call, const nlohmann::json& body);
  std::string checked(const HttpRequest& request);

  MlflowSettings settings_;
  std::chrono::milliseconds patience_ = std::chrono::seconds(10);
  std::string run_id_, experiment_id_, artifacts_;
};

}  // namespace trainer::tracking
