#pragma once

#include <functional>
#include <optional>

#include "engine/base/rank_board.h"
#include "engine/dist/comm.h"

namespace trainer::dist {

/// A communicator of all ranks that notes the begin and end of each collective on the board; groups made from it do the
/// same. `meet` creates the inner communicator, and is noted too. See Note [Watching ranks] in
/// engine/launch/watchdog.h.
std::unique_ptr<Comm> watched_comm(std::shared_ptr<RankBoard> board, int size,
                                   const std::function<std::unique_ptr<Comm>()>& meet);

/// Notes collectives that don't go through a communicator's members, such as those of c10d's Reducer.
class CollectiveNotes {
 public:
  CollectiveNotes(std::shared_ptr<RankBoard> board, int group) : board_(std::move(board)), group_(group) {}

  uint64_t begin(CollectiveKind kind, const at::Tensor& tensor, std::string_view what) const;
  /// `on_stream`: it is a stream that waits, not this process.
  void wait(uint64_t number, bool on_stream = false) const;
  void end(uint64_t number) const;

 private:
  std::shared_ptr<RankBoard> board_;
  int group_;
};

/// Nothing when the communicator isn't watched.
std::optional<CollectiveNotes> notes_of(Comm& comm);

}  // namespace trainer::dist
