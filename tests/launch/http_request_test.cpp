#include "engine/launch/http_request.h"

#include <gtest/gtest.h>

namespace trainer::launch {
namespace {

int refusal_of(const std::string& bytes) {
  const auto request = parse_request(bytes);
  return request ? request->refusal : -1;
}

TEST(HttpRequest, ReadsMethodAndPath) {
  EXPECT_EQ(parse_request("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), (HttpRequest{.path = "/metrics"}));
  EXPECT_EQ(parse_request("HEAD /readyz?verbose=1&x HTTP/1.0\r\n\r\n"),
            (HttpRequest{.wants_body = false, .path = "/readyz"}));
  EXPECT_EQ(parse_request("\r\nGET http://a:1/metrics HTTP/1.1\nHost: a\n\nrest"), (HttpRequest{.path = "/metrics"}));
  EXPECT_EQ(parse_request("GET http://a HTTP/1.1\r\n\r\n"), (HttpRequest{.path = "/"}));
}

TEST(HttpRequest, WaitsForTheEmptyLine) {
  const std::string whole = "GET /metrics HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n";
  for (std::size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(parse_request(whole.substr(0, size))) << size;
  EXPECT_TRUE(parse_request(whole));
}

TEST(HttpRequest, RefusesOtherMethods) {
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "get", "X"})
    EXPECT_EQ(refusal_of(std::string(method) + " /metrics HTTP/1.1\r\n\r\n"), 405) << method;
}

TEST(HttpRequest, RefusesMalformedOnes) {
  for (const char* line : {"", "GET", "GET /", "GET  HTTP/1.1", "GET metrics HTTP/1.1", "GET * HTTP/1.1",
                           "GET /a b HTTP/1.1", "GET /\x01 HTTP/1.1", "GET /\xc3\xa9 HTTP/1.1", "G(T / HTTP/1.1",
                           "GET / HTTP/1", "GET / http/1.1", "GET https://a/ HTTP/1.1"})
    EXPECT_EQ(refusal_of(std::string(line) + "\r\nHost: a\r\n\r\n"), 400) << line;
  for (const char* field : {"no colon", ": no name", "na me: a", "name : a", "a: \x01", " folded: a"})
    EXPECT_EQ(refusal_of(std::string("GET / HTTP/1.1\r\n") + field + "\r\n\r\n"), 400) << field;
  EXPECT_EQ(refusal_of("PRI * HTTP/2.0\r\n\r\n"), 505);
}

TEST(HttpRequest, IsBounded) {
  const std::string many(kMostRequestBytes, 'a');
  EXPECT_EQ(refusal_of("GET /" + many), 414);
  EXPECT_EQ(refusal_of("GET / HTTP/1.1\r\nX: " + many), 431);
  EXPECT_EQ(refusal_of(many.substr(1)), -1) << "one more byte may follow";
  const std::string head = "GET / HTTP/1.1\r\nX: ";
  EXPECT_EQ(refusal_of(head + many.substr(head.size() + 4) + "\r\n\r\n"), 0) << "exactly as many as allowed";
}

TEST(HttpResponse, HasItsLengthAndForHeadNoBody) {
  const std::string with = to_bytes({.body = "ok\n"}, true), without = to_bytes({.body = "ok\n"}, false);
  EXPECT_TRUE(with.starts_with("HTTP/1.1 200 OK\r\n")) << with;
  EXPECT_EQ(with, without + "ok\n");
  EXPECT_NE(with.find("\r\nContent-Length: 3\r\n"), std::string::npos);
  EXPECT_NE(to_bytes({.status = 405}, true).find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
}

}  // namespace
}  // namespace trainer::launch
