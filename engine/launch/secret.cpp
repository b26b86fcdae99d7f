#include "engine/launch/secret.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>

#include <climits>
#include <cstdlib>

#include "engine/base/errors.h"
#include "engine/base/files.h"

namespace trainer::launch {
namespace {

constexpr const char* kVariable = "TRAINER_SECRET";
constexpr const char* kFileVariable = "TRAINER_SECRET_FILE";

std::string take_variable(const char* name) {
  const char* const text = std::getenv(name);
  std::string value = text != nullptr ? text : "";
  unsetenv(name);
  return value;
}

std::string read_secret(const std::string& file) {
  constexpr int64_t kMostBytes = 64 << 10;
  try {
    std::string secret = read_file(file, kMostBytes);
    struct stat about {};
    if (stat(file.c_str(), &about) == 0 && (about.st_mode & (S_IROTH | S_IWOTH)) != 0)
      throw ConfigError("{}={}: every user of this machine can read the file: `chmod 600 {}`", kFileVariable, file,
                        file);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
    if (secret.empty()) throw ConfigError("{}={}: the file is empty", kFileVariable, file);
    return secret;
  } catch (const InputError& error) {
    throw ConfigError("{}={}: {}", kFileVariable, file, error.what());
  }
}

}  // namespace

std::string take_secret() {
  std::string secret = take_variable(kVariable);
  const std::string file = take_variable(kFileVariable);
  if (file.empty()) return secret;
  if (!secret.empty()) throw ConfigError("{} and {} are both set: give one of them", kVariable, kFileVariable);
  return read_secret(file);
}

std::string random_bytes(std::size_t count) {
  std::string bytes(count, '\0');
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
    throw MachineError("this machine has no source of random numbers (getrandom failed)");
  return bytes;
}

std::string keyed_hash(std::string_view key, std::string_view text) {
  require(key.size() <= INT_MAX, "a key of {} bytes", key.size());
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  const auto* const done = HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
                                reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash, &size);
  require(done != nullptr, "HMAC-SHA-256 failed");
  return {reinterpret_cast<const char*>(hash), size};
}

bool equal_secretly(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace trainer::launch
