#include "engine/dist/tls/session.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "engine/base/errors.h"

namespace trainer::dist::tls {

/// OpenSSL asks for the key through these.
struct Callbacks {
  static const Session& session_of(SSL* ssl) { return *static_cast<const Session*>(SSL_get_app_data(ssl)); }

  static SSL_SESSION* with_key(SSL* ssl) {
    constexpr unsigned char kAes128GcmSha256[] = {0x13, 0x01};
    const std::string& key = session_of(ssl).key_;
    SSL_SESSION* const session = SSL_SESSION_new();
    const bool done =
        session != nullptr &&
        SSL_SESSION_set1_master_key(session, reinterpret_cast<const unsigned char*>(key.data()), key.size()) == 1 &&
        SSL_SESSION_set_cipher(session, SSL_CIPHER_find(ssl, kAes128GcmSha256)) == 1 &&
        SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION) == 1;
    if (done) return session;
    SSL_SESSION_free(session);
    return nullptr;
  }

  /// The connecting end offers the key under the name of the other end.
  static int use(SSL* ssl, const EVP_MD*, const unsigned char** name, std::size_t* size, SSL_SESSION** session) {
    const std::string& offered = session_of(ssl).name_;
    *name = reinterpret_cast<const unsigned char*>(offered.data());
    *size = offered.size();
    *session = with_key(ssl);
    return *session != nullptr ? 1 : 0;
  }

  /// The accepting end knows only its own name.
  static int find(SSL* ssl, const unsigned char* name, std::size_t size, SSL_SESSION** session) {
    *session = nullptr;
    if (std::string_view(reinterpret_cast<const char*>(name), size) != session_of(ssl).name_) return 1;
    *session = with_key(ssl);
    return *session != nullptr ? 1 : 0;
  }
};

namespace {

/// OpenSSL's reason for the last failure in this thread: "binder does not verify".
std::string reason() {
  const char* const text = ERR_reason_error_string(ERR_peek_last_error());
  return text != nullptr ? text : "the connection was closed";
}

/// Of a failure in OpenSSL: what arrived is not what the other end sent, unless the reason is one of any library's.
int errno_of_failure() {
  const unsigned long error = ERR_peek_last_error();
  if (!ERR_COMMON_ERROR(error)) return EBADMSG;
  return ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE ? ENOMEM : EIO;
}

struct FreeContext {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, FreeContext>;

Context make_context() {
  Context context(SSL_CTX_new(TLS_method()));
  const bool done = context && SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(context.get(), "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set_num_tickets(context.get(), 0) == 1;
  if (!done)
    throw MachineError(
        "connections between ranks cannot be protected: this machine's OpenSSL has no TLS 1.3 with AES-128-GCM ({}).\n"
        "  Allow it in OpenSSL's configuration (OPENSSL_CONF), or set training.gloo_transport: tcp.",
        reason());
  SSL_CTX_set_psk_use_session_callback(context.get(), Callbacks::use);
  SSL_CTX_set_psk_find_session_callback(context.get(), Callbacks::find);
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  // A stream that ends without TLS's goodbye has ended, as for TCP: Gloo's messages have their length.
  SSL_CTX_set_options(context.get(), SSL_OP_IGNORE_UNEXPECTED_EOF);
  SSL_CTX_clear_options(context.get(), SSL_OP_ENABLE_MIDDLEBOX_COMPAT);
  // A system's configuration may ask for encryption by the kernel. With it, OpenSSL 3.0 can't change keys: a connection
  // would fail after 64 GiB.
  SSL_CTX_clear_options(context.get(), SSL_OP_ENABLE_KTLS);
  // A call writes at most one record, and may be repeated with the same bytes at another address.
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  return context;
}

SSL* new_session() {
  static const Context context = make_context();
  return SSL_new(context.get());
}

}  // namespace

void Session::Free::operator()(ssl_st* ssl) const {
  SSL_free(ssl);
}

Session::Session(int fd, const Credentials& credentials, std::string name, bool accepts, int64_t records_per_key)
    : key_(credentials.key), name_(std::move(name)), records_per_key_(records_per_key), ssl_(new_session()) {
  if (!ssl_ || SSL_set_fd(ssl_.get(), fd) != 1)
    throw MachineError("OpenSSL cannot protect a connection between ranks: {}", reason());
  SSL_set_app_data(ssl_.get(), this);
  accepts ? SSL_set_accept_state(ssl_.get()) : SSL_set_connect_state(ssl_.get());
  if (!accepts) SSL_set_verify(ssl_.get(), SSL_VERIFY_PEER, nullptr);  // no certificate stands in for the key
}

Session::Need Session::shake_hands() {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  errno = 0;
  const int result = SSL_do_handshake(ssl_.get());
  const int error = errno;
  if (result == 1) {
    if (SSL_session_reused(ssl_.get()) != 1) throw PeerError("the handshake did not use the key");
    return Need::kNothing;
  }
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
      return Need::kRead;
    case SSL_ERROR_WANT_WRITE:
      return Need::kWrite;
    case SSL_ERROR_SYSCALL:
      throw PeerError("{}", error != 0 ? std::strerror(error) : reason());
    default:
      throw PeerError("{}", reason());
  }
}

ssize_t Session::read(void* to, std::size_t count) {
  const std::lock_guard lock(mutex_);
  ERR_clear_error();
  errno = 0;
  std::size_t done = 0;
  const int result = SSL_read_ex(ssl_.get(), to, count, &done);
  return result == 1 ? static_cast<ssize_t>(done) : failed(result);
}

ssize_t Session::write(const iovec* parts, int count) {
  const std::lock_guard lock(mutex_);
  ssize_t written = 0;
  for (const iovec* part = parts; part != parts + count; ++part) {
    for (std::size_t at = 0; at < part->iov_len;) {
      ERR_clear_error();
      errno = 0;
      std::size_t done = 0;
      const int result =
          SSL_write_ex(ssl_.get(), static_cast<const char*>(part->iov_base) + at, part->iov_len - at, &done);
      if (result != 1) return written > 0 ? written : failed(result);
      at += done;
      written += static_cast<ssize_t>(done);
      if (++records_ >= records_per_key_) update_key();
    }
  }
  return written;
}

/// Only while there is room, and at once: OpenSSL sends a pending update before it reads, so that two ends with full
/// buffers would wait for each other.
void Session::update_key() {
  pollfd event{SSL_get_fd(ssl_.get()), POLLOUT, 0};
  const bool has_room = poll(&event, 1, 0) == 1 && (event.revents & POLLOUT) != 0;
  if (!has_room || SSL_key_update(ssl_.get(), SSL_KEY_UPDATE_NOT_REQUESTED) != 1) return;
  records_ = 0;
  SSL_do_handshake(ssl_.get());
}

/// What a system call would return instead.
ssize_t Session::failed(int result) {
  const int error = errno;
  switch (SSL_get_error(ssl_.get(), result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE:
      errno = EAGAIN;
      return -1;
    case SSL_ERROR_ZERO_RETURN:
      return 0;
    case SSL_ERROR_SYSCALL:
      errno = error != 0 ? error : ECONNRESET;
      return -1;
    default:
      errno = errno_of_failure();
      return -1;
  }
}

}  // namespace trainer::dist::tls
