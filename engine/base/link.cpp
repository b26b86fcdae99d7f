#include "engine/base/link.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "engine/base/errors.h"
#include "engine/base/signals_blocked.h"

namespace trainer {

std::unique_ptr<Link> Link::from_environment() {
  const char* text = std::getenv(kLinkVariable);
  if (text == nullptr) return nullptr;
  int fd = -1;
  const char* end = text + std::strlen(text);
  auto [stop, error] = std::from_chars(text, end, fd);
  if (error != std::errc() || stop != end || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    throw PeerError("{}={} is not an open file: start ranks with `trainer launch`, not by hand", kLinkVariable, text);
  }
  unsetenv(kLinkVariable);  // the number means nothing to a program this rank may start
  return std::make_unique<Link>(fd);
}

Link::Link(int fd) : fd_(fd) {
  const AllSignalsBlocked inherited_by_the_thread;
  receiver_ = std::thread([this] { receive_replies(); });
}

Link::~Link() {
  shutdown(fd_, SHUT_RDWR);  // wakes the receiver
  receiver_.join();
  close(fd_);
}

std::string Link::plan() {
  return ask({.op = LinkOp::kPlan}).strings.at(0);
}

std::string Link::peer_key() {
  return ask({.op = LinkOp::kPeerKey}).strings.at(0);
}

void Link::set(const std::string& key, const std::string& value) {
  ask({.op = LinkOp::kSet, .strings = {key, value}});
}

std::string Link::get(const std::string& key, Milliseconds timeout) {
  return std::move(ask({.op = LinkOp::kGet, .number = timeout.count(), .strings = {key}}).strings.at(0));
}

int64_t Link::add(const std::string& key, int64_t amount) {
  return ask({.op = LinkOp::kAdd, .number = amount, .strings = {key}}).number;
}

bool Link::check(const std::vector<std::string>& keys) {
  return ask({.op = LinkOp::kCheck, .strings = keys}).number != 0;
}

void Link::wait(const std::vector<std::string>& keys, Milliseconds timeout) {
  ask({.op = LinkOp::kWait, .number = timeout.count(), .strings = keys});
}

bool Link::erase(const std::string& key) {
  return ask({.op = LinkOp::kErase, .strings = {key}}).number != 0;
}

int64_t Link::num_keys() {
  return ask({.op = LinkOp::kNumKeys}).number;
}

std::string Link::compare_set(const std::string& key, const std::string& expected, const std::string& desired) {
  return std::move(ask({.op = LinkOp::kCompareSet, .strings = {key, expected, desired}}).strings.at(0));
}

void Link::report_step(int64_t step, std::string_view phase) {
  send({.op = LinkOp::kStep, .number = step, .strings = {std::string(phase)}});
}

void Link::report_failure(int exit_code, int64_t step, std::string_view message) noexcept {
  try {
    std::string text(message.substr(0, 64 << 10));
    send({.op = LinkOp::kFailure, .code = exit_code, .number = step, .strings = {std::move(text)}});
  } catch (...) {
  }
}

void Link::report_metrics(const std::string& line) {
  send({.op = LinkOp::kMetrics, .strings = {line}});
}

void Link::report_save(bool saved) {
  send({.op = LinkOp::kSave, .code = saved ? 0 : 1});
}

void Link::report_done() {
  send({.op = LinkOp::kDone});
}

LinkMessage Link::ask(LinkMessage request) {
  {
    std::lock_guard lock(mutex_);
    request.id = next_id_++;
    if (next_id_ == 0) next_id_ = 1;  // 0 means that no reply is wanted
    replies_.emplace(request.id, std::nullopt);
  }
  try {
    send(request);
  } catch (...) {
    std::lock_guard lock(mutex_);
    replies_.erase(request.id);
    throw;
  }
  std::unique_lock lock(mutex_);
  auto entry = replies_.find(request.id);
  arrived_.wait(lock, [&] { return entry->second.has_value() || !broken_.empty(); });
  auto node = replies_.extract(entry);
  if (!node.mapped()) throw PeerError("{}", broken_);
  LinkMessage reply = std::move(*node.mapped());
  lock.unlock();
  const std::string reason = reply.code == kLinkOk || reply.strings.empty() ? "" : reply.strings.front();
  if (reply.code == kLinkTimedOut) throw PeerError("{}", reason);
  require(reply.code == kLinkOk, "the supervisor refused a request: {}", reason);
  return reply;
}

void Link::send(const LinkMessage& message) {
  const std::string frame = encode_frame(message);
  std::lock_guard lock(send_mutex_);
  for (size_t sent = 0; sent < frame.size();) {
    ssize_t count = ::send(fd_, frame.data() + sent, frame.size() - sent, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw PeerError("the supervisor of this rank is gone ({})", std::strerror(errno));
    sent += static_cast<size_t>(count);
  }
}

void Link::receive_replies() {
  FrameReader frames;
  char bytes[16 << 10];
  try {
    for (;;) {
      ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return close_with("the supervisor of this rank is gone");
      frames.append({bytes, static_cast<size_t>(count)});
      while (auto reply = frames.next()) {
        std::lock_guard lock(mutex_);
        auto asked = replies_.find(reply->id);
        if (asked != replies_.end()) asked->second = std::move(*reply);
        arrived_.notify_all();
      }
    }
  } catch (const std::exception& error) {
    close_with(error.what());
  }
}

void Link::close_with(const std::string& reason) {
  std::lock_guard lock(mutex_);
  broken_ = reason;
  arrived_.notify_all();
}

}  // namespace trainer
