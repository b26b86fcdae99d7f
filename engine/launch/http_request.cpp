#include "engine/launch/http_request.h"

#include <algorithm>

#include <fmt/format.h>

namespace trainer::launch {
namespace {

constexpr int kBadRequest = 400, kMethodNotAllowed = 405, kTargetTooLong = 414, kFieldsTooLarge = 431,
              kVersionNotSupported = 505;

HttpRequest refused(int status) {
  return {.refusal = status};
}

/// A character of a method or of a field's name.
bool is_token(char c) {
  constexpr std::string_view kOthers = "!#$%&'*+-.^_`|~";
  return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
         kOthers.find(c) != std::string_view::npos;
}

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return is_token(c); });
}

bool is_visible(char c) {
  return c > ' ' && c < '\x7f';
}

/// Removes the first line from `rest` and returns it without its end; nothing if it is incomplete.
std::optional<std::string_view> take_line(std::string_view& rest) {
  const std::size_t end = rest.find('\n');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view line = rest.substr(0, end);
  rest.remove_prefix(end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// The path of a target such as "/metrics?x=1" or "http://host/metrics"; "" for other targets.
std::string path_of(std::string_view target) {
  constexpr std::string_view kScheme = "http://";
  if (!std::all_of(target.begin(), target.end(), is_visible)) return "";
  if (target.starts_with(kScheme)) {
    const std::size_t slash = target.find('/', kScheme.size());
    target = slash == std::string_view::npos ? "/" : target.substr(slash);
  }
  return target.starts_with('/') ? std::string(target.substr(0, target.find('?'))) : "";
}

HttpRequest parse_first_line(std::string_view line) {
  const std::size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || first == last || !is_token(line.substr(0, first))) return refused(kBadRequest);
  const std::string_view method = line.substr(0, first), version = line.substr(last + 1);
  if (!version.starts_with("HTTP/") || version.size() != 8 || version[6] != '.') return refused(kBadRequest);
  if (version[5] != '1') return refused(kVersionNotSupported);
  if (method != "GET" && method != "HEAD") return refused(kMethodNotAllowed);
  HttpRequest request{.wants_body = method == "GET", .path = path_of(line.substr(first + 1, last - first - 1))};
  return request.path.empty() ? refused(kBadRequest) : request;
}

/// A line such as "Host: localhost".
bool is_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  const auto is_allowed = [](char c) { return c == '\t' || (c >= ' ' && c != '\x7f') || c < 0; };
  return colon != std::string_view::npos && is_token(line.substr(0, colon)) &&
         std::all_of(line.begin() + static_cast<std::ptrdiff_t>(colon), line.end(), is_allowed);
}

const char* reason_of(int status) {
  switch (status) {
    case 200:
      return "OK";
    case kBadRequest:
      return "Bad Request";
    case 404:
      return "Not Found";
    case kMethodNotAllowed:
      return "Method Not Allowed";
    case kTargetTooLong:
      return "URI Too Long";
    case kFieldsTooLarge:
      return "Request Header Fields Too Large";
    case 503:
      return "Service Unavailable";
    case kVersionNotSupported:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

}  // namespace

std::optional<HttpRequest> parse_request(std::string_view bytes) {
  const bool is_full = bytes.size() >= kMostRequestBytes;
  std::string_view rest = bytes.substr(0, kMostRequestBytes);
  if (rest.starts_with("\r\n")) rest.remove_prefix(2);  // some clients send one after an earlier request
  const std::optional<std::string_view> first = take_line(rest);
  if (!first) return is_full ? std::optional(refused(kTargetTooLong)) : std::nullopt;
  HttpRequest request = parse_first_line(*first);
  while (const std::optional<std::string_view> line = take_line(rest)) {
    if (line->empty()) return request;
    if (!is_field(*line) && request.refusal == 0) request = refused(kBadRequest);
  }
  return is_full ? std::optional(refused(kFieldsTooLarge)) : std::nullopt;
}

std::string to_bytes(const HttpResponse& response, bool with_body) {
  return fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\n{}Connection: "
      "close\r\n\r\n{}",
      response.status, reason_of(response.status), response.type, response.body.size(),
      response.status == kMethodNotAllowed ? "Allow: GET, HEAD\r\n" : "", with_body ? response.body : "");
}

}  // namespace trainer::launch
