#include "engine/tracking/http.h"

#include <curl/curl.h>

#include <memory>

#include <fmt/format.h>

#include "engine/base/errors.h"

namespace trainer::tracking {
namespace {

constexpr size_t kMostOfAnswer = size_t{4} << 20;

size_t take(char* bytes, size_t, size_t count, void* body) {
  auto& text = *static_cast<std::string*>(body);
  if (text.size() + count > kMostOfAnswer) return 0;  // ends the transfer
  text.append(bytes, count);
  return count;
}

struct Closed {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
  void operator()(curl_slist* list) const { curl_slist_free_all(list); }
};

void authenticate(CURL* handle, const HttpServer& server) {
  if (!server.token.empty()) {
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
    curl_easy_setopt(handle, CURLOPT_XOAUTH2_BEARER, server.token.c_str());
  } else if (!server.user.empty()) {
    curl_easy_setopt(handle, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
    curl_easy_setopt(handle, CURLOPT_USERNAME, server.user.c_str());
    curl_easy_setopt(handle, CURLOPT_PASSWORD, server.password.c_str());
  }
  if (!server.verify) {
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYPEER, 0L);
    curl_easy_setopt(handle, CURLOPT_SSL_VERIFYHOST, 0L);
  }
  if (!server.certificates.empty()) curl_easy_setopt(handle, CURLOPT_CAINFO, server.certificates.c_str());
}

}  // namespace

HttpAnswer send(const HttpServer& server, const HttpRequest& request, std::chrono::milliseconds patience) {
  static const CURLcode ready = curl_global_init(CURL_GLOBAL_DEFAULT);
  const std::unique_ptr<CURL, Closed> handle(ready == CURLE_OK ? curl_easy_init() : nullptr);
  if (!handle) throw InternalError("libcurl cannot be initialized");
  const std::string url = server.address + request.path;
  const std::unique_ptr<curl_slist, Closed> headers(
      curl_slist_append(nullptr, ("Content-Type: " + request.content_type).c_str()));
  HttpAnswer answer;
  curl_easy_setopt(handle.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(handle.get(), CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(handle.get(), CURLOPT_CUSTOMREQUEST, request.method.c_str());
  curl_easy_setopt(handle.get(), CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(handle.get(), CURLOPT_TIMEOUT_MS, static_cast<long>(patience.count()));
  curl_easy_setopt(handle.get(), CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(handle.get(), CURLOPT_WRITEDATA, &answer.body);
  if (request.method != "GET") {
    curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    curl_easy_setopt(handle.get(), CURLOPT_POSTFIELDS, request.body.data());
  }
  authenticate(handle.get(), server);
  const CURLcode outcome = curl_easy_perform(handle.get());
  long status = 0;
  curl_easy_getinfo(handle.get(), CURLINFO_RESPONSE_CODE, &status);
  if (outcome == CURLE_OK)
    answer.status = static_cast<int>(status);
  else
    answer.error = curl_easy_strerror(outcome);
  return answer;
}

std::string url_encoded(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '~';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace trainer::tracking
