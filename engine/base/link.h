// A rank's connection to the supervisor that started it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/base/link_protocol.h"

namespace trainer {

/// One end of a socket pair created by the supervisor: gives access to the key-value store shared by all ranks of the
/// run, and reports this rank's progress. All members are thread-safe, even while another thread waits for a key.
/// Errors: PeerError when the supervisor is gone or a wait timed out.
/// The link is private to the two processes: nothing listens, so no stranger can connect and nothing is left behind.
class Link {
 public:
  using Milliseconds = std::chrono::milliseconds;
  static constexpr Milliseconds kNoTimeout{0};  ///< wait as long as it takes

  /// The link in TRAINER_LINK_FD; null when this process was not started by our supervisor.
  static std::unique_ptr<Link> from_environment();

  /// Takes ownership of a connected stream socket.
  explicit Link(int fd);
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// The plan of the run, as `config::to_text` wrote it.
  std::string plan();
  /// The secret that the ranks of this attempt share, 32 bytes; "": none.
  std::string peer_key();

  // The store. Values are any bytes.
  void set(const std::string& key, const std::string& value);
  /// The value of `key`, waiting for it to appear.
  std::string get(const std::string& key, Milliseconds timeout = kNoTimeout);
  /// Adds to a decimal number (0 when absent) and returns the sum.
  int64_t add(const std::string& key, int64_t amount);
  /// True when all keys exist.
  bool check(const std::vector<std::string>& keys);
  /// Waits until all keys exist.
  void wait(const std::vector<std::string>& keys, Milliseconds timeout = kNoTimeout);
  /// True when the key existed.
  bool erase(const std::string& key);
  int64_t num_keys();
  /// Sets `desired` when the value is `expected`, or when the key is absent and `expected` is empty.
  /// Returns the value afterward; `expected` when the key is absent and remains so.
  std::string compare_set(const std::string& key, const std::string& expected, const std::string& desired);

  // Reports have no reply; each costs one small write.
  /// Reports this rank's step; `phase` is one word for messages ("forward", "saving").
  void report_step(int64_t step, std::string_view phase);
  /// Reports why this rank is about to exit with `exit_code`. The supervisor prints it, so the rank doesn't.
  /// `step` is -1 before the first one. Never throws: the supervisor may be gone.
  void report_failure(int exit_code, int64_t step, std::string_view message) noexcept;
  /// Reports a line of metrics.jsonl, and whether a save that has ended succeeded.
  void report_metrics(const std::string& line);
  void report_save(bool saved);
  /// Reports that the run is complete: exit code 0 without this counts as a failure.
  void report_done();

 private:
  LinkMessage ask(LinkMessage request);
  void send(const LinkMessage& message);
  void receive_replies();
  void close_with(const std::string& reason);

  int fd_;
  std::mutex send_mutex_;  // frames must not interleave
  std::mutex mutex_;       // guards what follows
  std::condition_variable arrived_;
  uint32_t next_id_ = 1;
  std::map<uint32_t, std::optional<LinkMessage>> replies_;  // by request; empty until the reply arrives
  std::string broken_;                                      // why the link no longer works; "" while it does
  std::thread receiver_;
};

}  // namespace trainer
