// Where and as what MLflow records a run, from the environment variables of MLflow and transformers.
#pragma once

#include <map>
#include <string>

#include "engine/tracking/http.h"

namespace trainer::tracking {

struct MlflowSettings {
  HttpServer server;
  std::string experiment;  // by name; "": MLFLOW_EXPERIMENT_ID, else MLflow's default
  std::string experiment_id;
  std::string run_id;    // an existing run to continue; "": a new one
  std::string run_name;  // "": the name of output_dir
  std::map<std::string, std::string> tags;
};

/// MLFLOW_TRACKING_URI, _USERNAME, _PASSWORD, _TOKEN, _INSECURE_TLS and _SERVER_CERT_PATH, MLFLOW_EXPERIMENT_NAME,
/// MLFLOW_EXPERIMENT_ID, MLFLOW_RUN_ID, MLFLOW_RUN_NAME, and MLFLOW_TAGS, a JSON object.
/// Errors: ConfigError for a missing or unsupported address, or tags that aren't texts.
MlflowSettings mlflow_settings();

}  // namespace trainer::tracking
