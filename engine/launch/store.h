// The key-value store that the ranks of a run share. Their collectives meet through it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/link_protocol.h"

namespace trainer::launch {

using Clock = std::chrono::steady_clock;

/// Keys, values, and the ranks that wait for keys. It does no input or output: requests go in, replies come out.
class Store {
 public:
  struct Answer {
    int rank;
    LinkMessage message;
  };

  /// Carries out one request of `rank`. Its reply, and those to waits that it ends, are appended to `answers`.
  void handle(int rank, const LinkMessage& request, Clock::time_point now, std::vector<Answer>& answers);

  /// Tells those whose time is up which key they missed.
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
