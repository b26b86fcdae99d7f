// Messages from one rank to another, in order, over a ring of shared memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "engine/dist/shm/call_queue.h"
#include "engine/dist/shm/region.h"

namespace trainer::dist::shm {

/// The sender's end. A message is copied at once as far as the ring has space; a thread copies the rest, because the
/// receiver may be waiting for something else of this rank.
class Outbox {
 public:
  Outbox(Region& region, int to) : region_(region), ring_(region.ring(region.rank(), to)), to_(to) {}
  ~Outbox();

  /// `tensor`: on the CPU and contiguous; it must not change until the message is done.
  WorkPtr send(const at::Tensor& tensor);

 private:
  class Message;
  void copy_rest();

  Region& region_;
  Ring& ring_;
  const int to_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<c10::intrusive_ptr<Message>> messages_;
  std::atomic<bool> ends_{false};
  std::thread thread_;  // started by the first message that doesn't fit
};

/// The receiver's end.
class Inbox {
 public:
  Inbox(Region& region, int from)
      : region_(region), ring_(region.ring(from, region.rank())), from_(from), calls_(region.rank()) {}

  /// The message arrives during wait() of the result, after those of earlier calls.
  WorkPtr receive(const at::Tensor& tensor);

 private:
  void take(std::byte* to, int64_t bytes);

  Region& region_;
  Ring& ring_;
  const int from_;
  CallQueue calls_;
};

}  // namespace trainer::dist::shm
