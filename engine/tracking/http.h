// Requests to a tracking server.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace trainer::tracking {

struct HttpRequest {
  std::string method;  // GET, POST, PUT
  std::string path;    // after the server's address: "/api/2.0/mlflow/runs/create"
  std::string body{};
  std::string content_type = "application/json";
};

struct HttpAnswer {
  int status = 0;       // 0: the server was not reached
  std::string body{};   // at most 4 MiB
  std::string error{};  // why it was not reached
  bool is_good() const { return status >= 200 && status < 300; }
  /// Worth trying again: not reached, overloaded, or the server's own failure.
  bool is_temporary() const { return status == 0 || status == 408 || status == 429 || status >= 500; }
};

struct HttpServer {
  std::string address{};  // "https://host:5000/prefix", without user, password, query and final slash
  std::string user{}, password{}, token{};
  bool verify = true;          // its certificate
  std::string certificates{};  // a file with those to trust; "": the system's
};

/// Sends one request and waits for the answer, at most `patience`. Redirects aren't followed: they would pass on the
/// password.
HttpAnswer send(const HttpServer& server, const HttpRequest& request, std::chrono::milliseconds patience);

/// `text` with everything but letters, digits and "-_.~" as %XX.
std::string url_encoded(const std::string& text);

}  // namespace trainer::tracking
