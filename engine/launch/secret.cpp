#include "engine/launch/secret.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/files.h"
#include "engine/base/hex.h"
#include "engine/base/private_file.h"

namespace trainer::launch {
namespace {

constexpr const char* kVariable = "TRAINER_SECRET";
constexpr const char* kFileVariable = "TRAINER_SECRET_FILE";
constexpr const char* kNoSecret = "none";

/// Clears the bytes too: /proc/PID/environ shows them to every process of this user, as long as we run.
std::string take_variable(const char* name) {
  char* const text = std::getenv(name);
  std::string value = text != nullptr ? text : "";
  if (text != nullptr) OPENSSL_cleanse(text, value.size());
  unsetenv(name);
  return value;
}

std::string read_secret(const std::string& file) {
  constexpr int64_t kMostBytes = 64 << 10;
  try {
    std::string secret = read_private_file(file, kMostBytes);
    while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
    if (secret.empty()) throw ConfigError("the file is empty");
    return secret;
  } catch (const ConfigError& error) {
    throw ConfigError("{}={}: {}", kFileVariable, file, error.what());
  }
}

}  // namespace

std::string take_secret() {
  std::string secret = take_variable(kVariable);
  const std::string file = take_variable(kFileVariable);
  if (file.empty()) return secret;
  if (!secret.empty()) throw ConfigError("{} and {} are both set: give one of them", kVariable, kFileVariable);
  return file == kNoSecret ? "" : read_secret(file);
}

bool is_without_secret() {
  const char* const file = std::getenv(kFileVariable);
  return file != nullptr && file == std::string(kNoSecret);
}

void forget_secret() {
  take_variable(kVariable);
  take_variable(kFileVariable);
}

void create_secret(const std::filesystem::path& file) {
  const FileDescriptor created(
      open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR));
  if (!created && errno == EEXIST) throw ConfigError("{} exists already: its secret is not replaced", file.string());
  if (!created) throw machine_error("create", file, errno);
  try {
    write_all(created.get(), hex(random_bytes(32)) + "\n", file);
  } catch (const MachineError&) {
    unlink(file.c_str());
    throw;
  }
}

std::string stretched(const std::string& secret, const std::string& salt) {
  if (secret.empty()) return "";
  constexpr uint64_t kRounds = 1 << 15, kBlock = 8, kParallel = 1;  // 32 MiB
  constexpr uint64_t kMostMemory = 64 << 20;
  std::string key(32, '\0');
  const int done =
      EVP_PBE_scrypt(secret.data(), secret.size(), reinterpret_cast<const unsigned char*>(salt.data()), salt.size(),
                     kRounds, kBlock, kParallel, kMostMemory, reinterpret_cast<unsigned char*>(key.data()), key.size());
  if (done != 1) throw MachineError("cannot derive a key from the secret: scrypt failed (32 MiB of memory are needed)");
  return key;
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
