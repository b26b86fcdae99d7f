#include "engine/dist/shm/channel.h"

#include <algorithm>
#include <cstring>

#include "engine/base/errors.h"

namespace trainer::dist::shm {
namespace {

constexpr auto kRing = static_cast<uint32_t>(kRingBytes);

/// Copies what fits of `bytes`, and returns how much that is.
int64_t put(Ring& ring, const std::byte* from, int64_t bytes) {
  const uint32_t written = ring.written.value.load(std::memory_order_relaxed);
  const uint32_t space = kRing - (written - ring.taken.now());
  const auto count = static_cast<uint32_t>(std::min<int64_t>(bytes, space));
  if (count == 0) return 0;
  const uint32_t at = written % kRing, first = std::min(count, kRing - at);
  std::memcpy(ring.bytes + at, from, first);
  std::memcpy(ring.bytes, from + first, count - first);
  ring.written.raise(written + count);
  return count;
}

}  // namespace

class Outbox::Message : public c10d::Work {
 public:
  Message(int rank, const at::Tensor& tensor)
      : Work(rank, c10d::OpType::SEND), tensor_(tensor), head_(call_of(c10d::OpType::SEND, tensor)) {}

  /// Copies what fits; true when nothing is left.
  bool put_into(Ring& ring) {
    constexpr auto kHead = static_cast<int64_t>(sizeof(Call));
    if (done_ < kHead) done_ += put(ring, reinterpret_cast<const std::byte*>(&head_) + done_, kHead - done_);
    if (done_ < kHead) return false;
    const auto* const values = static_cast<const std::byte*>(tensor_.const_data_ptr());
    done_ += put(ring, values + (done_ - kHead), kHead + head_.bytes - done_);
    return done_ == kHead + head_.bytes;
  }
  void end(std::exception_ptr error = nullptr) {
    tensor_.reset();
    finish(std::move(error));
  }

 private:
  at::Tensor tensor_;
  Call head_;         // comes before the values
  int64_t done_ = 0;  // bytes of head and values
};

Outbox::~Outbox() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

WorkPtr Outbox::send(const at::Tensor& tensor) {
  auto message = c10::make_intrusive<Message>(region_.rank(), tensor);
  const std::lock_guard lock(mutex_);
  if (messages_.empty() && message->put_into(ring_)) {
    message->end();
    return message;
  }
  messages_.push_back(message);
  if (!thread_.joinable()) thread_ = std::thread([this] { copy_rest(); });
  changed_.notify_one();
  return message;
}

void Outbox::copy_rest() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return ends_ || !messages_.empty(); });
    if (messages_.empty()) return;
    const auto message = messages_.front();
    lock.unlock();
    std::exception_ptr error;
    try {
      while (!message->put_into(ring_))
        region_.wait(ring_.taken, ring_.written.value.load(std::memory_order_relaxed) - kRing + 1, to_, &ends_);
    } catch (...) {
      error = std::current_exception();
    }
    message->end(error);
    lock.lock();
    messages_.pop_front();
  }
}

WorkPtr Inbox::receive(const at::Tensor& tensor) {
  return calls_.add(c10d::OpType::RECV, {tensor}, [this, tensor] {
    Call sent;
    take(reinterpret_cast<std::byte*>(&sent), sizeof sent);
    if (const Call mine = call_of(c10d::OpType::SEND, tensor); sent != mine)
      throw PeerError("rank {} sent {} bytes of {}, but rank {} expected {} of {}", from_, sent.bytes,
                      c10::toString(static_cast<c10::ScalarType>(sent.dtype)), region_.rank(), mine.bytes,
                      c10::toString(tensor.scalar_type()));
    take(static_cast<std::byte*>(tensor.mutable_data_ptr()), sent.bytes);
  });
}

void Inbox::take(std::byte* to, int64_t bytes) {
  while (bytes > 0) {
    const uint32_t taken = ring_.taken.value.load(std::memory_order_relaxed);
    region_.wait(ring_.written, taken + 1, from_);
    const auto count = static_cast<uint32_t>(std::min<int64_t>(bytes, ring_.written.now() - taken));
    const uint32_t at = taken % kRing, first = std::min(count, kRing - at);
    std::memcpy(to, ring_.bytes + at, first);
    std::memcpy(to + first, ring_.bytes, count - first);
    ring_.taken.raise(taken + count);
    to += count;
    bytes -= count;
  }
}

}  // namespace trainer::dist::shm
