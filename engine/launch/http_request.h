// The requests that the status server understands.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace trainer::launch {

/// A request without a body, reduced to what decides its answer.
struct HttpRequest {
  int refusal = 0;         // the status code that refuses it: 400, 405, 414, 431 or 505; 0 if it can be answered
  bool wants_body = true;  // GET; not HEAD
  std::string path{};      // without the query

  bool operator==(const HttpRequest&) const = default;
};

/// The most bytes of a request, up to the empty line that ends it.
inline constexpr std::size_t kMostRequestBytes = 8192;

/// The request at the beginning of `bytes`; nothing while it is incomplete and may still fit in kMostRequestBytes.
/// Source: RFC 9110 and RFC 9112. Lines may end in LF alone.
std::optional<HttpRequest> parse_request(std::string_view bytes);

/// A response, after which the connection is closed.
struct HttpResponse {
  int status = 200;
  std::string body{};
  const char* type = "text/plain; charset=utf-8";
};

/// The response's bytes; for HEAD without the body.
std::string to_bytes(const HttpResponse& response, bool with_body);

}  // namespace trainer::launch
