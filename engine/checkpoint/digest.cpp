#include "engine/checkpoint/digest.h"

#include <fcntl.h>
#include <openssl/evp.h>

#include <cerrno>
#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/hex.h"

namespace trainer::checkpoint {

struct Digest::State {
  std::string kind;
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> xxh3{nullptr, XXH3_freeState};
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> sha256{nullptr, EVP_MD_CTX_free};
};

Digest::Digest(std::string_view kind) : state_(std::make_unique<State>()) {
  state_->kind = kind;
  if (kind == "xxh3") {
    state_->xxh3.reset(XXH3_createState());
    XXH3_128bits_reset(state_->xxh3.get());
  } else if (kind == "sha256") {
    state_->sha256.reset(EVP_MD_CTX_new());
    require(EVP_DigestInit_ex(state_->sha256.get(), EVP_sha256(), nullptr) == 1, "libcrypto has no SHA-256");
  } else {
    throw InputError("unknown checksum '{}'; this version knows xxh3 and sha256", kind);
  }
}

Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  if (state_->xxh3)
    XXH3_128bits_update(state_->xxh3.get(), bytes.data(), bytes.size());
  else
    EVP_DigestUpdate(state_->sha256.get(), bytes.data(), bytes.size());
}

std::string Digest::text() {
  if (state_->xxh3) {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_->xxh3.get());
    return fmt::format("{}:{:016x}{:016x}", state_->kind, hash.high64, hash.low64);
  }
  unsigned char hash[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  EVP_DigestFinal_ex(state_->sha256.get(), hash, &size);
  return state_->kind + ":" + hex({reinterpret_cast<const char*>(hash), size});
}

std::string_view kind_of(std::string_view digest) {
  return digest.substr(0, digest.find(':'));
}

std::string digest_of(std::string_view kind, std::string_view bytes) {
  Digest digest(kind);
  digest.add(bytes);
  return digest.text();
}

std::string digest_of_file(std::string_view kind, const std::filesystem::path& path) {
  Digest digest(kind);
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  std::vector<char> buffer(size_t{1} << 20);
  for (;;) {
    const ssize_t count = file ? read(file.get(), buffer.data(), buffer.size()) : -1;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw InputError("cannot read {}: {}", path.string(), std::strerror(errno));
    if (count == 0) return digest.text();
    digest.add({buffer.data(), static_cast<size_t>(count)});
  }
}

}  // namespace trainer::checkpoint
