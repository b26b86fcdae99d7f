// TLS 1.3 (RFC 8446, by OpenSSL) with a key that both ends have.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

struct ssl_st;

namespace trainer::dist::tls {

/// What the ranks of an attempt share.
struct Credentials {
  std::string key;       // 32 secret bytes
  bool encrypts = true;  // false: the ends prove that they have the key, then the connection continues in clear
};

/// One end of a connection. Both ends prove that they have the key, for this connection only (fresh randomness and an
/// ephemeral key exchange); then each record is encrypted and numbered (AES-128-GCM): one that is changed, repeated,
/// left out or inserted ends the connection. Thread-safe.
class Session {
 public:
  enum class Need { kNothing, kRead, kWrite };

  /// Records, of 16 KiB at most, that are encrypted with one key; RFC 8446 section 5.5 allows AES-GCM 2^24.5.
  static constexpr int64_t kRecordsPerKey = int64_t{1} << 22;

  /// Of the connected, non-blocking socket `fd`, which the caller keeps open. `name` must be equal on both ends; it
  /// names the accepting one, so that a connection that was redirected to another one is refused. `accepts`: this end
  /// does.
  Session(int fd, const Credentials& credentials, std::string name, bool accepts,
          int64_t records_per_key = kRecordsPerKey);

  /// Continues the handshake; to be called again when the socket is ready for what it returns. kNothing: it is
  /// complete. Errors: PeerError with the reason when the other end doesn't have the key.
  Need shake_hands();

  /// After the handshake, as recv() and writev() on a non-blocking socket, with errno. A record never spans two
  /// `parts`, so a reader that takes a part whole leaves nothing of it in the session, where poll() wouldn't see it.
  /// EBADMSG: the data was changed on its way.
  ssize_t read(void* to, std::size_t count);
  ssize_t write(const iovec* parts, int count);

 private:
  struct Free {
    void operator()(ssl_st* ssl) const;
  };
  void update_key();
  ssize_t failed(int result);

  const std::string key_, name_;
  const int64_t records_per_key_;
  int64_t records_ = 0;  // written with the key
  std::mutex mutex_;
  std::unique_ptr<ssl_st, Free> ssl_;

  friend struct Callbacks;
};

}  // namespace trainer::dist::tls
