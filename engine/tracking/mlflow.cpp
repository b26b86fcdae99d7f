#include "engine/tracking/mlflow.h"

#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "engine/base/bounded_json.h"
#include "engine/base/files.h"
#include "engine/base/safe_text.h"
#include "engine/base/utf8.h"

namespace trainer::tracking {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestKey = 250, kLongestValue = 6000;  // MLflow's
constexpr const char* kArtifacts = "mlflow-artifacts:";

int64_t milliseconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::string shortened(const std::string& text, size_t most) {
  return text.size() <= most ? text : text.substr(0, character_begin(text, most));
}

/// MLflow allows letters, digits and a few signs in names.
std::string key_of(std::string name) {
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && std::string_view("_-. /:").find(c) == std::string::npos)
      c = '_';
  return shortened(name, kLongestKey);
}

Json pairs_of(const Mlflow::Pairs& pairs, bool are_keys) {
  Json list = Json::array();
  for (const auto& [key, value] : pairs)
    list.push_back({{"key", are_keys ? key_of(key) : key}, {"value", shortened(value, kLongestValue)}});
  return list;
}

/// A member of an answer; "" if it isn't there.
std::string text_at(const Json& json, const char* key) {
  const auto found = json.is_object() ? json.find(key) : json.end();
  return json.is_object() && found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

Json member(const Json& json, const char* key) {
  return json.is_object() && json.contains(key) ? json[key] : Json();
}

}  // namespace

std::string Mlflow::checked(const HttpRequest& request) {
  const HttpAnswer answer = send(settings_.server, request, patience_);
  if (answer.is_good()) return answer.body;
  if (answer.status == 0) throw ServerAway(answer.error);
  const Json json = bounded_json_or_none(answer.body);
  const std::string code = text_at(json, "error_code"), why = shortened(text_at(json, "message"), 200);
  const std::string what = fmt::format("HTTP status {}{}{}{}{}", answer.status, code.empty() ? "" : ", ", code,
                                       why.empty() ? "" : ": ", safe_text(why.substr(0, why.find('\n'))));
  if (answer.is_temporary()) throw ServerAway(what);
  throw ServerRefuses(what);
}

Json Mlflow::get(const std::string& call) {
  return bounded_json_or_none(checked({.method = "GET", .path = "/api/2.0/mlflow/" + call}));
}

Json Mlflow::post(const std::string& call, const Json& body) {
  return bounded_json_or_none(checked({.method = "POST",
                                       .path = "/api/2.0/mlflow/" + call,
                                       .body = body.dump(-1, ' ', false, Json::error_handler_t::replace)}));
}

void Mlflow::take(const Json& run) {
  const Json info = member(run, "info");
  run_id_ = text_at(info, "run_id");
  experiment_id_ = text_at(info, "experiment_id");
  artifacts_ = text_at(info, "artifact_uri");
  if (run_id_.empty()) throw ServerRefuses("its answer names no run: is it an MLflow server?");
}

bool Mlflow::continue_run(const std::string& run_id) {
  const std::string id = settings_.run_id.empty() ? run_id : settings_.run_id;
  if (id.empty()) return false;
  try {
    take(member(get("runs/get?run_id=" + url_encoded(id)), "run"));
    post("runs/update", {{"run_id", run_id_}, {"status", "RUNNING"}});
  } catch (const ServerRefuses&) {
    if (!settings_.run_id.empty()) throw;  // asked for by name
    return false;
  }
  return true;
}

std::string Mlflow::experiment() {
  if (!settings_.experiment_id.empty()) return settings_.experiment_id;
  if (settings_.experiment.empty()) return "0";
  const std::string by_name = "experiments/get-by-name?experiment_name=" + url_encoded(settings_.experiment);
  try {
    return text_at(member(get(by_name), "experiment"), "experiment_id");
  } catch (const ServerRefuses&) {  // none of this name
  }
  try {
    return text_at(post("experiments/create", {{"name", settings_.experiment}}), "experiment_id");
  } catch (const ServerRefuses&) {  // another run was faster, or the name is not allowed
    return text_at(member(get(by_name), "experiment"), "experiment_id");
  }
}

void Mlflow::create_run(const std::string& name, const Pairs& tags) {
  Json all = pairs_of(tags, false);
  for (const auto& [key, value] : settings_.tags) all.push_back({{"key", key}, {"value", value}});
  take(member(post("runs/create", {{"experiment_id", experiment()},
                                   {"start_time", milliseconds_now()},
                                   {"run_name", settings_.run_name.empty() ? name : settings_.run_name},
                                   {"tags", all}}),
              "run"));
}

void Mlflow::log_parameters(const Pairs& parameters) {
  for (size_t at = 0; at < parameters.size(); at += kMostParameters) {
    const auto begin = parameters.begin() + static_cast<int64_t>(at);
    const Pairs some(begin, begin + static_cast<int64_t>(std::min(kMostParameters, parameters.size() - at)));
    post("runs/log-batch", {{"run_id", run_id_}, {"params", pairs_of(some, true)}});
  }
}

void Mlflow::log_metrics(const std::vector<Values>& lines) {
  Json metrics = Json::array();
  const auto flush = [&] {
    if (!metrics.empty()) post("runs/log-batch", {{"run_id", run_id_}, {"metrics", metrics}});
    metrics = Json::array();
  };
  for (const Values& line : lines) {
    if (metrics.size() + line.numbers.size() > kMostMetrics) flush();
    for (const auto& [name, number] : line.numbers)
      metrics.push_back(
          {{"key", key_of(name)}, {"value", number}, {"timestamp", milliseconds_now()}, {"step", line.step}});
  }
  flush();
}

bool Mlflow::upload(const std::filesystem::path& file) {
  if (!artifacts_.starts_with(kArtifacts)) return false;
  std::string path = artifacts_.substr(std::string_view(kArtifacts).size());
  if (path.starts_with("//")) path = path.substr(std::min(path.size(), path.find('/', 2)));  // names the server itself
  checked({.method = "PUT",
           .path = fmt::format("/api/2.0/mlflow-artifacts/artifacts{}/{}", path, url_encoded(file.filename().string())),
           .body = read_file(file),
           .content_type = "application/octet-stream"});
  return true;
}

void Mlflow::finish(const std::string& status) {
  post("runs/update", {{"run_id", run_id_}, {"status", status}, {"end_time", milliseconds_now()}});
}

std::string Mlflow::page() const {
  return fmt::format("{}/#/experiments/{}/runs/{}", address(), experiment_id_, run_id_);
}

}  // namespace trainer::tracking
