// The messages between a rank and its supervisor, and between supervisors, and their frames.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// The environment variable with the number of a rank's end of the link.
inline constexpr const char* kLinkVariable = "TRAINER_LINK_FD";

/// The environment variable with the address at which ranks of other machines reach this one; not set where there is
/// one machine.
inline constexpr const char* kAddressVariable = "TRAINER_ADDRESS";
/// Environment variable: how many times the ranks were started before. See [Note Lives] in engine/launch/lives.h.
inline constexpr const char* kLifeVariable = "TRAINER_LIFE";
/// Environment variable: what no other life of a run on several machines has. Not set on one.
inline constexpr const char* kAttemptVariable = "TRAINER_ATTEMPT";

/// Environment variable: how many ranks, the first ones, see the output folder; not set where all do.
/// See [Note Without a shared folder] in engine/checkpoint/folder_access.h.
inline constexpr const char* kKeepersVariable = "TRAINER_KEEPERS";

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

  // Between the supervisors of several machines: G is a guest, H machine 0, their host. See [Note Several machines].
  kHello,      // G: strings {protocol, nonce}; not sealed
  kChallenge,  // H: strings {protocol, nonce}; not sealed. All that follow are.
  kIntroduce,  // G: an Introduction
  kWelcome,    // H: this machine may take part; strings {the host's name}; code 1: in the next life, one is running
  kPrepared,   // G: what it does before ranks start is done: it could take part at once
  kTerms,      // H: a life begins, and this is what it is
  kLook,       // H: everybody is here; strings {name, content} of a file in the output folder
  kSeen,       // G: code 0 when it sees that file; strings {why not}. H: strings {who doesn't see it, or ""}
  kReady,      // G: its preparation: code, strings {message}
  kGo,         // H: everybody is prepared: start ranks
  kPing,       // both
  kCarry,      // number rank, strings {frame}: G: a request of its rank, H: the reply to it
  kRankFails,  // G: a Failure
  kStop,       // both: number a signal; code 1: at once
  kGrow,       // H: save, and stop for another life with more machines; strings {who has come}
  kFinished,   // G: its ranks have ended: code, number step, strings {why nothing was saved}
  kEnd,        // H: an Outcome, or why a machine may not join: code, strings {message}
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

inline constexpr uint32_t kMaxLinkFrame = 16u << 20;                       // bytes after the length field
inline constexpr uint32_t kMaxMachineFrame = kMaxLinkFrame + (64u << 10);  // a rank's frame, carried to another machine

/// A frame: its length (u32), then op (u8), id (u32), code (i32), number (i64), and the strings (u32 count; u32 length
/// and bytes each). Byte order is the host's: both ends are on one kind of machine.
/// Errors: InternalError for a message of more than `most` bytes.
std::string encode_frame(const LinkMessage& message, uint32_t most = kMaxLinkFrame);

/// Cuts a stream of bytes into messages. No length in it is trusted.
class FrameReader {
 public:
  explicit FrameReader(uint32_t most = kMaxLinkFrame) : most_(most) {}
  /// Frames of up to so many bytes are messages.
  void allow(uint32_t most) { most_ = most; }

  void append(std::string_view bytes) { buffer_.append(bytes); }

  /// The next whole message, if there is one. Errors: PeerError for bytes that are no message.
  std::optional<LinkMessage> next();

 private:
  uint32_t most_;
  std::string buffer_;
  size_t begin_ = 0;  // bytes before this were handed out
};

}  // namespace trainer
