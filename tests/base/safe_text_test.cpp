#include "engine/base/safe_text.h"

#include <chrono>
#include <cstdlib>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace trainer {
namespace {

/// An environment variable that is set for one test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Variable() { unsetenv(name_); }

 private:
  const char* name_;
};

const std::string kLetters = "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5hJ7kL9";

/// Concatenated, so that no secret scanner takes them for real tokens.
std::vector<std::string> tokens() {
  std::vector<std::string> all;
  for (const char* prefix :
       {"hf_",    "api_org_", "ghp_",    "gho_",  "ghs_",     "ghu_",          "ghr_",      "github_pat_",
        "glpat-", "gldt-",    "glrt-",   "xoxb-", "xoxp-",    "xapp-",         "AKIA",      "ASIA",
        "AIza",   "ya29.",    "GOCSPX-", "sk-",   "sk-proj-", "sk-ant-api03-", "wandb_v1_", "nvapi-",
        "gsk_",   "r8_",      "SG.",     "pypi-", "npm_",     "dckr_pat_",     "dop_v1_",   "dapi"})
    all.push_back(prefix + kLetters);
  all.push_back("eyJhbGciOiJIUzI1NiJ9." + kLetters + "." + kLetters);
  return all;
}

TEST(SafeText, HidesTokensByTheirShape) {
  for (const std::string& token : tokens()) {
    EXPECT_EQ(without_secrets(token), "<secret>");
    EXPECT_EQ(without_secrets("a (" + token + ") b"), "a (<secret>) b");
    EXPECT_EQ(without_secrets("path/" + token + "/x"), "path/<secret>/x");
    EXPECT_EQ(without_secrets("key=" + token + "\n" + token), "key=<secret>\n<secret>");
    EXPECT_EQ(without_secrets("'" + token + "'"), "'<secret>'");
  }
}

TEST(SafeText, HidesAuthorizationHeaders) {
  EXPECT_EQ(without_secrets("Authorization: Bearer " + kLetters + "+/="), "Authorization: <secret>");
  EXPECT_EQ(without_secrets("authorization: bearer " + kLetters), "authorization: <secret>");
  EXPECT_EQ(without_secrets("Basic dXNlcjpwYXNzd29yZDEyMw=="), "<secret>");
  const std::string words = "basic understanding of tokens; bearer of implausibilities";
  EXPECT_EQ(without_secrets(words), words);
}

TEST(SafeText, HidesUserInfoInUrls) {
  EXPECT_EQ(without_secrets("http://me:pass@proxy:3128/x"), "http://<secret>@proxy:3128/x");
  EXPECT_EQ(without_secrets("postgres://me:p@ss@host"), "postgres://<secret>@host");
  EXPECT_EQ(without_secrets("see https:/me:pass@host"), "see https:/<secret>@host") << "as in a path";
  EXPECT_EQ(without_secrets("https://" + kLetters + "@example.com/a.git"), "https://<secret>@example.com/a.git");
  for (const char* plain : {"ssh://git@example.com/a", "https://example.com/a@b", "a@b.c", "http://[::1]:80/a:b"})
    EXPECT_EQ(without_secrets(plain), plain);
}

TEST(SafeText, HidesValuesWithSecretNames) {
  EXPECT_EQ(without_secrets("WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567 python"),
            "WANDB_API_KEY=<secret> python");
  EXPECT_EQ(without_secrets("MLFLOW_TRACKING_PASSWORD=hunter2"), "MLFLOW_TRACKING_PASSWORD=<secret>");
  EXPECT_EQ(without_secrets("MLFLOW_TRACKING_TOKEN: abc123"), "MLFLOW_TRACKING_TOKEN: <secret>");
  EXPECT_EQ(without_secrets(R"({"api_key": "0123abcd", "b": 1})"), R"({"api_key": "<secret>", "b": 1})");
  EXPECT_EQ(without_secrets("https://x/y?access_token=0123abcd&z=1"), "https://x/y?access_token=<secret>&z=1");
  EXPECT_EQ(without_secrets("aws_secret_access_key = abcdefgh"), "aws_secret_access_key = <secret>");
  for (const char* plain :
       {"eos_token: '<|endoftext|>'", "unk_token: <unknown>", "tokens: 12345678", "key: value", "a key: something",
        "TRAINER_SECRET is not set", "max_tokens=12345678", "must be lines of 'key: value'; is 'sentence'"})
    EXPECT_EQ(without_secrets(plain), plain);
}

TEST(SafeText, HidesPrivateKeys) {
  const std::string key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXkt\n-----END OPENSSH PRIVATE KEY-----";
  EXPECT_EQ(without_secrets("a " + key + " b"), "a <secret> b");
  EXPECT_EQ(without_secrets("a " + key.substr(0, 50)), "a <secret>") << "truncated";
  const std::string open = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----";
  EXPECT_EQ(without_secrets(open), open);
}

TEST(SafeText, HidesSecretsOfTheEnvironment) {
  const Variable key("WANDB_API_KEY", "0123456789abcdef0123456789abcdef01234567");
  const Variable password("MLFLOW_TRACKING_PASSWORD", "hunter22");
  const Variable word("SOME_SECRET", "required");
  const Variable number("TOKEN_LIMIT", "10000000");
  const Variable file("TRAINER_SECRET_FILE", "job/the-secret");
  const Variable flag("TOKENIZERS_PARALLELISM", "not-at-all-here");
  EXPECT_EQ(without_secrets("x0123456789abcdef0123456789abcdef01234567x"), "x<secret>x");
  EXPECT_EQ(without_secrets("hunter22, hunter221 and (hunter22)"), "<secret>, hunter221 and (<secret>)");
  for (const char* plain : {"required of 10000000 tokens", "job/the-secret: no such file", "not-at-all-here"})
    EXPECT_EQ(without_secrets(plain), plain);
}

TEST(SafeText, KeepsCommonWords) {
  for (const char* plain :
       {"", "hf_model", "sk-learn", "risk-averse-and-very-long-word-indeed", "eyJ", "AKIA",
        "a shelf_of_books_that_is_more_than_thirty_letters_long", "services/Training",
        "/root/.cache/huggingface/hub/models--a--b/snapshots/0123456789abcdef0123456789abcdef01234567",
        "checkpoint-100/model.safetensors"})
    EXPECT_EQ(without_secrets(plain), plain);
}

TEST(SafeText, ScansLongTextsInLinearTime) {
  const auto started = std::chrono::steady_clock::now();
  for (const char* part : {"/", "sk-", "a-", "password:", "://", "-----BEGIN ", "eyJ.", "bearer "}) {
    std::string text;
    while (text.size() < 1'000'000) text += part;
    without_secrets(text);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(60)) << "quadratic: hours";
}

TEST(SafeText, EscapesControlCharacters) {
  EXPECT_EQ(safe_text("a\x1b[2J\tb\n"), "a\\x1b[2J\tb\n");
  EXPECT_EQ(safe_text("a\u202e\u200b\ufeff\u0085z"), "a\\u202e\\u200b\\ufeff\\u0085z");
  EXPECT_EQ(safe_text("äöü \u4e2d"), "äöü \u4e2d");
}

}  // namespace
}  // namespace trainer
