#include "engine/base/link_protocol.h"

#include <cstring>

#include "engine/base/errors.h"

namespace trainer {
namespace {

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

/// Reads fields from the front of a frame's body.
class Fields {
 public:
  explicit Fields(std::string_view body) : rest_(body) {}

  template <class T>
  T take() {
    T value;
    std::memcpy(&value, take_bytes(sizeof(T)).data(), sizeof(T));
    return value;
  }

  std::string_view take_bytes(size_t count) {
    if (count > rest_.size()) throw PeerError("malformed message: {} bytes announced, {} left", count, rest_.size());
    std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
};

LinkMessage decode_body(std::string_view body) {
  Fields fields(body);
  LinkMessage message;
  auto op = fields.take<uint8_t>();
  if (op > static_cast<uint8_t>(kLastLinkOp)) throw PeerError("malformed message: unknown operation {}", op);
  message.op = static_cast<LinkOp>(op);
  message.id = fields.take<uint32_t>();
  message.code = fields.take<int32_t>();
  message.number = fields.take<int64_t>();
  auto count = fields.take<uint32_t>();
  // No reserve(count): each string takes at least its length field, so a false count fails at the end of the body.
  for (uint32_t i = 0; i < count; ++i) {
    auto size = fields.take<uint32_t>();
    message.strings.emplace_back(fields.take_bytes(size));
  }
  if (fields.left() != 0) throw PeerError("malformed message: {} bytes too many", fields.left());
  return message;
}

}  // namespace

std::string encode_frame(const LinkMessage& message, uint32_t most) {
  std::string frame(sizeof(uint32_t), '\0');
  put(frame, static_cast<uint8_t>(message.op));
  put(frame, message.id);
  put(frame, message.code);
  put(frame, message.number);
  put(frame, static_cast<uint32_t>(message.strings.size()));
  for (const std::string& text : message.strings) {
    put(frame, static_cast<uint32_t>(text.size()));
    frame += text;
  }
  size_t size = frame.size() - sizeof(uint32_t);
  require(size <= most, "a message of {} bytes to or from the supervisor; at most {} are allowed", size, most);
  auto length = static_cast<uint32_t>(size);
  std::memcpy(frame.data(), &length, sizeof(length));
  return frame;
}

std::optional<LinkMessage> FrameReader::next() {
  std::string_view waiting = std::string_view(buffer_).substr(begin_);
  uint32_t length;
  if (waiting.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, waiting.data(), sizeof(length));
  if (length > most_) throw PeerError("malformed message: a frame of {} bytes", length);
  if (waiting.size() - sizeof(length) < length) return std::nullopt;
  LinkMessage message = decode_body(waiting.substr(sizeof(length), length));
  begin_ += sizeof(length) + length;
  if (begin_ == buffer_.size() || begin_ > kMaxLinkFrame) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  return message;
}

}  // namespace trainer
