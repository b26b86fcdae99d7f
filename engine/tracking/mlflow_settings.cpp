#include "engine/tracking/mlflow_settings.h"

#include <cstdlib>

#include <fmt/format.h>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"

namespace trainer::tracking {
namespace {

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// %XX in the user and password of an address.
std::string url_decoded(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const std::string digits = text.substr(i + 1, 2);
    if (text[i] == '%' && digits.size() == 2 &&
        digits.find_first_not_of("0123456789abcdefABCDEF") == std::string::npos) {
      out += static_cast<char>(std::stoi(digits, nullptr, 16));
      i += 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

/// Splits "https://user:password@host/prefix/?query".
HttpServer server_of(const std::string& uri) {
  const size_t scheme = uri.find("://");
  const std::string kind = uri.substr(0, scheme);
  if (uri.empty())
    throw ConfigError(
        "logging.report_to: mlflow needs a server: set MLFLOW_TRACKING_URI, such as http://127.0.0.1:5000 for\n"
        "  mlflow server --host 127.0.0.1 --port 5000\nor leave mlflow out.");
  if (scheme == std::string::npos || (kind != "http" && kind != "https"))
    throw ConfigError(
        "logging.report_to: MLFLOW_TRACKING_URI must begin with http:// or https://: trainer sends to an `mlflow "
        "server`, not to files or databases{}",
        scheme == std::string::npos ? "" : fmt::format("; it begins with '{}'", kind.substr(0, 20)));
  HttpServer server;
  std::string rest = uri.substr(scheme + 3);
  rest = rest.substr(0, rest.find_first_of("?#"));
  const size_t slash = rest.find('/'), at = rest.substr(0, slash).rfind('@');
  if (at != std::string::npos) {
    const std::string user = rest.substr(0, at);
    rest = rest.substr(at + 1);
    server.user = url_decoded(user.substr(0, user.find(':')));
    if (user.find(':') != std::string::npos) server.password = url_decoded(user.substr(user.find(':') + 1));
  }
  while (rest.ends_with('/')) rest.pop_back();
  server.address = kind + "://" + rest;
  return server;
}

std::map<std::string, std::string> tags_of(const std::string& text) {
  std::map<std::string, std::string> tags;
  if (text.empty()) return tags;
  const auto json = bounded_json_or_none(text);
  if (!json.is_object()) throw ConfigError("MLFLOW_TAGS must be a JSON object, like {{\"team\": \"speech\"}}");
  for (const auto& [key, value] : json.items()) tags[key] = value.is_string() ? value.get<std::string>() : value.dump();
  return tags;
}

}  // namespace

MlflowSettings mlflow_settings() {
  MlflowSettings settings;
  settings.server = server_of(variable("MLFLOW_TRACKING_URI"));
  if (const std::string user = variable("MLFLOW_TRACKING_USERNAME"); !user.empty()) {
    settings.server.user = user;
    settings.server.password = variable("MLFLOW_TRACKING_PASSWORD");
  }
  settings.server.token = variable("MLFLOW_TRACKING_TOKEN");
  settings.server.verify = variable("MLFLOW_TRACKING_INSECURE_TLS") != "true";
  settings.server.certificates = variable("MLFLOW_TRACKING_SERVER_CERT_PATH");
  settings.experiment = variable("MLFLOW_EXPERIMENT_NAME");
  settings.experiment_id = variable("MLFLOW_EXPERIMENT_ID");
  settings.run_id = variable("MLFLOW_RUN_ID");
  settings.run_name = variable("MLFLOW_RUN_NAME");
  settings.tags = tags_of(variable("MLFLOW_TAGS"));
  return settings;
}

}  // namespace trainer::tracking
