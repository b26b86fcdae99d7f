#include "engine/launch/store.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "engine/base/errors.h"

namespace trainer::launch {
namespace {

/// How many strings a request must have; -1: any number.
int strings_of(LinkOp op) {
  switch (op) {
    case LinkOp::kNumKeys:
      return 0;
    case LinkOp::kGet:
    case LinkOp::kAdd:
    case LinkOp::kErase:
      return 1;
    case LinkOp::kSet:
      return 2;
    case LinkOp::kCompareSet:
      return 3;
    default:
      return -1;
  }
}

LinkMessage number_reply(int64_t number) {
  return {.number = number};
}

LinkMessage refusal(std::string reason) {
  return {.code = kLinkRefused, .strings = {std::move(reason)}};
}

std::optional<Clock::time_point> deadline_of(const LinkMessage& request, Clock::time_point now) {
  if (request.number <= 0) return std::nullopt;
  constexpr int64_t kYear = int64_t{365} * 24 * 3600 * 1000;  // keeps the sum from overflowing
  return now + std::chrono::milliseconds(std::min(request.number, kYear));
}

}  // namespace

void Store::handle(int rank, const LinkMessage& request, Clock::time_point now, std::vector<Answer>& answers) {
  const int expected = strings_of(request.op);
  LinkMessage reply;
  if (expected >= 0 && request.strings.size() != static_cast<size_t>(expected)) {
    reply = refusal(fmt::format("{} strings; expected {}", request.strings.size(), expected));
  } else if (request.op == LinkOp::kGet || request.op == LinkOp::kWait) {
    if (first_missing(request.strings) != nullptr) {
      waits_.push_back({rank, request, deadline_of(request, now)});
      return;
    }
    reply = found(request);
  } else {
    reply = carry_out(request);
  }
  reply.id = request.id;
  answers.push_back({rank, std::move(reply)});
  answer_ready(answers);
}

LinkMessage Store::carry_out(const LinkMessage& request) {
  const std::vector<std::string>& strings = request.strings;
  try {
    switch (request.op) {
      case LinkOp::kSet:
        values_[strings[0]] = strings[1];
        return {};
      case LinkOp::kAdd:
        return number_reply(add(strings[0], request.number));
      case LinkOp::kCheck:
        return number_reply(first_missing(strings) == nullptr ? 1 : 0);
      case LinkOp::kErase:
        return number_reply(static_cast<int64_t>(values_.erase(strings[0])));
      case LinkOp::kNumKeys:
        return number_reply(static_cast<int64_t>(values_.size()));
      case LinkOp::kCompareSet:
        return {.strings = {compare_set(strings)}};
      default:
        return refusal("not a request to the store");
    }
  } catch (const InternalError& error) {
    return refusal(error.what());
  }
}

int64_t Store::add(const std::string& key, int64_t amount) {
  int64_t sum = 0;
  if (auto entry = values_.find(key); entry != values_.end()) {
    const std::string& text = entry->second;
    auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), sum);
    require(error == std::errc() && stop == text.data() + text.size(), "add to '{}', which is not a number", key);
  }
  require(!__builtin_add_overflow(sum, amount, &sum), "add to '{}' overflows", key);
  values_[key] = std::to_string(sum);
  return sum;
}

const std::string& Store::compare_set(const std::vector<std::string>& arguments) {
  const std::string& expected = arguments[1];
  const std::string& desired = arguments[2];
  auto entry = values_.find(arguments[0]);
  if (entry == values_.end()) {
    if (!expected.empty()) return expected;
    return values_[arguments[0]] = desired;
  }
  if (entry->second == expected) entry->second = desired;
  return entry->second;
}

const std::string* Store::first_missing(const std::vector<std::string>& keys) const {
  auto missing = std::find_if(keys.begin(), keys.end(), [&](const std::string& key) { return !values_.contains(key); });
  return missing == keys.end() ? nullptr : &*missing;
}

/// The reply to a get or a wait whose keys all exist.
LinkMessage Store::found(const LinkMessage& request) const {
  LinkMessage reply{.id = request.id};
  if (request.op == LinkOp::kGet) reply.strings = {values_.at(request.strings[0])};
  return reply;
}

void Store::answer_ready(std::vector<Answer>& answers) {
  std::erase_if(waits_, [&](const Wait& wait) {
    if (first_missing(wait.request.strings) != nullptr) return false;
    answers.push_back({wait.rank, found(wait.request)});
    return true;
  });
}

void Store::expire(Clock::time_point now, std::vector<Answer>& answers) {
  std::erase_if(waits_, [&](const Wait& wait) {
    if (!wait.deadline || *wait.deadline > now) return false;
    const std::string reason = fmt::format("waited {} ms for '{}', which no other rank has set", wait.request.number,
                                           *first_missing(wait.request.strings));
    answers.push_back({wait.rank, {.id = wait.request.id, .code = kLinkTimedOut, .strings = {reason}}});
    return true;
  });
}

std::optional<Clock::time_point> Store::next_deadline() const {
  std::optional<Clock::time_point> next;
  for (const Wait& wait : waits_) {
    if (wait.deadline && (!next || *wait.deadline < *next)) next = wait.deadline;
  }
  return next;
}

void Store::forget(int rank) {
  std::erase_if(waits_, [&](const Wait& wait) { return wait.rank == rank; });
}

}  // namespace trainer::launch
