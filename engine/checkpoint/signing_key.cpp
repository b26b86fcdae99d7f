#include "engine/checkpoint/signing_key.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/private_file.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/openssh_key.h"

namespace trainer::checkpoint {
namespace {

constexpr int64_t kMostKeyBytes = 64 << 10;

using Key = std::shared_ptr<EVP_PKEY>;
using Bio = std::unique_ptr<BIO, decltype(&BIO_free)>;
using Context = std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)>;

const unsigned char* bytes_of(std::string_view text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Key owned(EVP_PKEY* key) {
  return {key, EVP_PKEY_free};
}

/// Instead of libcrypto's, which asks on the terminal. `asked` becomes true.
int no_passphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

Key private_key_in(std::string_view text) {
  if (is_openssh_private_key(text)) {
    std::string raw = openssh_private_key(text);
    Key key = owned(EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()));
    OPENSSL_cleanse(raw.data(), raw.size());
    return key;
  }
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  bool asked = false;
  Key key = owned(PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, &asked));
  if (asked)
    throw ConfigError("the key is protected by a passphrase, which a run can't ask for: use a key without one");
  return key;
}

Key public_key_in(std::string_view text) {
  if (is_openssh_public_key(text)) {
    const std::string raw = openssh_public_key(text);
    return owned(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, bytes_of(raw), raw.size()));
  }
  if (text.find("PRIVATE KEY-----") != std::string_view::npos)
    throw ConfigError(
        "it is a private key; whoever verifies needs only the public one:\n  `openssl pkey -in KEYFILE -pubout -out "
        "KEYFILE.pub`, or the .pub file that ssh-keygen wrote");
  const Bio bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), BIO_free);
  bool asked = false;
  return owned(PEM_read_bio_PUBKEY(bio.get(), nullptr, no_passphrase, &asked));
}

/// Errors: ConfigError that names the option and the file.
template <class Read, class Parse>
Key key_from(const std::filesystem::path& file, std::string_view option, const char* what, const Read& read,
             const Parse& parse) {
  std::string text;
  Key key;
  try {
    text = read();
    key = parse(text);
  } catch (const ConfigError& error) {
    OPENSSL_cleanse(text.data(), text.size());
    throw ConfigError("{}: {}: {}", option, file.string(), error.what());
  } catch (const InputError& error) {
    throw ConfigError("{}: {}", option, error.what());
  }
  OPENSSL_cleanse(text.data(), text.size());
  if (!key || EVP_PKEY_id(key.get()) != EVP_PKEY_ED25519)
    throw ConfigError("{}: {}: {}{} of Ed25519 is needed, in PEM or in OpenSSH's format", option, file.string(),
                      key ? "it is a key of another kind; " : "", what);
  return key;
}

}  // namespace

PublicKey::PublicKey(const std::filesystem::path& file, std::string_view option)
    : key_(key_from(
          file, option, "a public key", [&] { return read_file(file, kMostKeyBytes); }, public_key_in)) {}

bool PublicKey::verifies(std::string_view text, std::string_view signature) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  return EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
         EVP_DigestVerify(context.get(), bytes_of(signature), signature.size(), bytes_of(text), text.size()) == 1;
}

std::string PublicKey::id() const {
  std::string raw(32, '\0');
  size_t size = raw.size();
  EVP_PKEY_get_raw_public_key(key_.get(), reinterpret_cast<unsigned char*>(raw.data()), &size);
  return digest_of("sha256", raw).substr(std::string_view("sha256:").size(), 32);
}

SigningKey::SigningKey(const std::filesystem::path& file, std::string_view option)
    : key_(key_from(
          file, option, "a private key", [&] { return read_private_file(file, kMostKeyBytes); }, private_key_in)) {}

std::string SigningKey::sign(std::string_view text) const {
  const Context context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  std::string signature(kSignatureBytes, '\0');
  size_t size = signature.size();
  const bool good = EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                    EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                   bytes_of(text), text.size()) == 1;
  require(good && size == kSignatureBytes, "libcrypto can't sign with Ed25519");
  return signature;
}

void check_keys(const std::string& sign, const std::string& trusted_key) {
  std::string signs, trusts;
  if (!sign.empty()) signs = SigningKey(sign, kSignOption).public_key().id();
  if (!trusted_key.empty()) trusts = PublicKey(trusted_key, kTrustedKeyOption).id();
  if (trusts.empty() || signs == trusts) return;
  if (signs.empty())
    throw ConfigError(
        "{}: {} is empty, so this run couldn't resume from its own checkpoints: give the private key, too",
        kTrustedKeyOption, kSignOption);
  throw ConfigError("{}: {} signs with another key ({}; the trusted one is {}): give the two halves of one key",
                    kTrustedKeyOption, kSignOption, signs, trusts);
}

}  // namespace trainer::checkpoint
