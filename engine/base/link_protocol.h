// The messages between a rank and its supervisor, and their frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The environment variable with the number of a rank's end of the link.
inline constexpr const char* kLinkVariable = "TRAINER_LINK_FD";

/// What a message is about; the comment names the fields it uses.
enum class LinkOp : uint8_t {
  kPlan,        // -> strings {plan text}
  kSet,         // strings {key, value}
  kGet,         // strings {key}, number timeout in ms (0: none) -> strings {value}
  kAdd,         // strings {key}, number amount -> number sum
  kCheck,       // strings keys -> number 1 or 0
  kWait,        // strings keys, number timeout in ms (0: none)
  kErase,       // strings {key} -> number 1 or 0
  kNumKeys,     // -> number
  kCompareSet,  // strings {key, expected, desired} -> strings {value}
  kStep,        // number step, strings {phase}; no reply
  kFailure,     // number step, code exit code, strings {message}; no reply
  kDone,        // no reply
  kReply,       // code a LinkStatus; a refusal has strings {reason}
};

enum LinkStatus : int32_t { kLinkOk = 0, kLinkTimedOut = 1, kLinkRefused = 2 };

/// One message of either direction.
struct LinkMessage {
  LinkOp op = LinkOp::kReply;
  uint32_t id = 0;  // pairs a reply with its request; 0 when no reply is wanted
  int32_t code = 0;
  int64_t number = 0;
  std::vector<std::string> strings{};
};

inline constexpr uint32_t kMaxLinkFrame = 16u << 20;  // bytes after the length field

/// A frame: its length (u32), then op (u8), id (u32), code (i32), number (i64), and the strings (u32 count; u32 length
/// and bytes each). Byte order is the host's: both ends are on one machine.
/// Errors: InternalError for a message larger than kMaxLinkFrame.
std::string encode_frame(const LinkMessage& message);

/// Cuts a stream of bytes into messages. No length in it is trusted.
class FrameReader {
 public:
  void append(std::string_view bytes) { buffer_.append(bytes); }

  /// The next whole message, if there is one. Errors: PeerError for bytes that are no message.
  std::optional<LinkMessage> next();

 private:
  std::string buffer_;
  size_t begin_ = 0;  // bytes before this were handed out
};

}  // namespace trainer
