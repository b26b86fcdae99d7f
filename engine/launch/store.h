// The key-value store that the ranks of a run share. Their communicators rendezvous through it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/link_protocol.h"

namespace trainer::launch {

using Clock = std::chrono::steady_clock;

/// Keys, values, and the ranks that wait for keys. Performs no I/O: it maps requests to replies.
class Store {
 public:
  struct Answer {
    int rank;
    LinkMessage message;
  };

  /// Carries out one request of `rank`. Appends its reply, and those to the waits it ends, to `answers`.
  void handle(int rank, const LinkMessage& request, Clock::time_point now, std::vector<Answer>& answers);

  /// Replies to the waits that have timed out with the missing key.
  void expire(Clock::time_point now, std::vector<Answer>& answers);

  std::optional<Clock::time_point> next_deadline() const;

  /// Drops the waits of a rank that is gone.
  void forget(int rank);

 private:
  struct Wait {
    int rank;
    LinkMessage request;
    std::optional<Clock::time_point> deadline;
  };

  LinkMessage carry_out(const LinkMessage& request);
  int64_t add(const std::string& key, int64_t amount);
  const std::string& compare_set(const std::vector<std::string>& arguments);
  const std::string* first_missing(const std::vector<std::string>& keys) const;
  LinkMessage found(const LinkMessage& request) const;
  void answer_ready(std::vector<Answer>& answers);

  std::unordered_map<std::string, std::string> values_;
  std::vector<Wait> waits_;
};

}  // namespace trainer::launch
