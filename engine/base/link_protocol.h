// Messages between a rank and its supervisor and between supervisors, and their framing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainer {

/// Environment variable: the file descriptor of a rank's end of the link.
inline constexpr const char* kLinkVariable = "TRAINER_LINK_FD";

/// Environment variable: the address at which ranks of other machines reach this one; not set for a run on one machine.
inline constexpr const char* kAddressVariable = "TRAINER_ADDRESS";
/// Environment variable: how many times the ranks were started before. See Note [Attempts] in engine/launch/attempts.h.
inline constexpr const char* kAttemptVariable = "TRAINER_LIFE";
/// Environment variable: the unique id of an attempt of a run on several machines. Not set on one machine.
inline constexpr const char* kAttemptIdVariable = "TRAINER_ATTEMPT";

/// Environment variable: how many ranks, counted from rank 0, see the output folder; not set when all do.
/// See Note [Without a shared folder] in engine/checkpoint/folder_access.h.
inline constexpr const char* kKeepersVariable = "TRAINER_KEEPERS";

/// Environment variable of a rank that sees only its own GPU: how many ranks use that GPU. See rank_places().
inline constexpr const char* kOwnGpuVariable = "TRAINER_OWN_GPU";

/// The kind of a message. Comments name the fields it uses.
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

  // Between the supervisors of several machines, sent by a follower (F), by machine 0, the leader (L), or by both. See
  // Note [Several machines].
  kHello,      // F: strings {protocol, nonce}; not sealed
  kChallenge,  // L: number the leader's epoch, strings {protocol, nonce}; not sealed. All later messages are.
  kIntroduce,  // F: an Introduction
  kWelcome,    // L: this machine may join; strings {the leader's host name}; code 1: the next generation, as one runs
  kPrepared,   // F: its preparation is done: it could join at once
  kTerms,      // L: the Terms of an attempt that begins
  kLook,       // L: all machines are connected; strings {name, content} of a file in the output folder
  kSeen,       // F: code 0 when it sees that file; strings {why not}. L: strings {which machine doesn't see it, or ""}
  kReady,      // F: the result of its preparation: code, strings {message}
  kGo,         // L: all machines are prepared: start ranks
  kPing,       // both
  kCarry,      // number rank, strings {frame}: F: a request of its rank, L: the reply to it
  kRankFails,  // F: a Failure
  kStop,       // both: number a signal; code 1: at once
  kGrow,       // L: save, and stop for a generation with more machines; strings {the new machines}
  kFinished,   // F: its ranks have ended: code, number step, strings {why nothing was saved}
  kEnd,        // L: an Outcome, or why a machine must not join: code, strings {message}

  // From rank 0 for the metrics page. Last: other versions know the messages above by their numbers.
  kMetrics,  // strings {a line of metrics.jsonl}; no reply
  kSave,     // a save has ended: code 0 when it succeeded; no reply

  kPeerKey,  // -> strings {the key that this attempt's ranks share, or ""}. Between a rank and its own supervisor only.

  // Copies of checkpoints between the supervisors of machines that share no folder: Note [Replicas] in
  // engine/launch/folder_copy.h. S: by the machine that sends files, R: by the one that receives them.
  kHoldings,   // F: its Holdings; code: it keeps no copies, strings {why}
  kRestore,    // L: the machine `number` sends the leader its copy of strings {checkpoint}; -1: none has to any more
  kGoAhead,    // L: no machine has to restore anything: number the leader's epoch
  kCopyOffer,  // S: strings {checkpoint, then name, bytes and digest of each file}
  kCopyWant,   // R: strings {numbers of the files that it lacks}; code: it takes none, strings {why}
  kCopyPart,   // S: number the file, strings {the next bytes of it, encrypted}; code: it sends no more, strings {why}
  kCopyTook,   // R: number bytes written so far
  kCopyEnd,    // R: the copy is published; code: it isn't, strings {why}

  // Between machines that share no folder: Note [Votes] in engine/launch/membership.h.
  kVotes,    // F: code its number, strings {its VoteRecord}
  kPropose,  // L: strings {the Membership of a generation}
  kVote,     // F: code 0: its vote for it is on its disk
  kAgreed,   // L: all have voted
  kLeads,    // by a leader to a machine 0 that may not know it: code its number, number its epoch, strings {host, port}
};

inline constexpr LinkOp kLastLinkOp = LinkOp::kLeads;

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
inline constexpr uint32_t kMaxMachineFrame = kMaxLinkFrame + (64u << 10);  // a rank's frame, sent to another machine

/// A frame: its length (u32), then op (u8), id (u32), code (i32), number (i64), and the strings (u32 count; u32 length
/// and bytes each), in host byte order: both ends have the same architecture.
/// Errors: InternalError for a message of more than `most` bytes.
std::string encode_frame(const LinkMessage& message, uint32_t most = kMaxLinkFrame);

/// Splits a stream of bytes into messages. Checks every length in it.
class FrameReader {
 public:
  explicit FrameReader(uint32_t most = kMaxLinkFrame) : most_(most) {}
  /// Accepts frames of up to this many bytes.
  void allow(uint32_t most) { most_ = most; }

  void append(std::string_view bytes) { buffer_.append(bytes); }

  /// The next complete message, if there is one. Errors: PeerError for malformed bytes.
  std::optional<LinkMessage> next();

 private:
  uint32_t most_;
  std::string buffer_;
  size_t begin_ = 0;  // bytes before this have been consumed
};

}  // namespace trainer
