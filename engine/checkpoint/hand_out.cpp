// Sends the shards of a checkpoint to the ranks that don't see it: Note [Without a shared folder].
#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <span>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/checkpoint/folder_access.h"

namespace trainer::checkpoint {
namespace {

using Share = FolderAccess::Share;

/// A range that a rank needs.
struct Need {
  int rank;
  Share share;
};

/// Collective. Grouped by shard, sorted by rank.
std::map<int64_t, std::vector<Need>> needs_of_all(const std::vector<Share>& mine, dist::Comm& comm) {
  const std::string said(reinterpret_cast<const char*>(mine.data()), mine.size() * sizeof(Share));
  const std::vector<std::string> all = comm.gather_text(said);
  std::map<int64_t, std::vector<Need>> needs;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    for (size_t at = 0; at + sizeof(Share) <= all[rank].size(); at += sizeof(Share)) {
      Need need{static_cast<int>(rank), {}};
      std::memcpy(&need.share, all[rank].data() + at, sizeof(Share));
      needs[need.share.piece].push_back(need);
    }
  }
  return needs;
}

/// The smallest range that contains all of them.
Share hull(std::span<const Need> needs) {
  Share share = needs.front().share;
  for (const Need& need : needs) {
    share.begin = std::min(share.begin, need.share.begin);
    share.end = std::max(share.end, need.share.end);
  }
  return share;
}

std::vector<int> ranks_of(std::span<const Need> needs) {
  std::vector<int> ranks;
  for (const Need& need : needs) ranks.push_back(need.rank);
  return ranks;
}

/// Sent before values to describe them: their type, number and checksum.
using TensorHead = std::array<int64_t, 3>;

TensorHead head_of(const at::Tensor& values) {
  return {static_cast<int64_t>(values.scalar_type()), values.numel(), crc32c(values.const_data_ptr(), values.nbytes())};
}

at::Tensor receive(dist::Comm& comm, int from, const Share& share) {
  const at::Tensor head = at::empty({std::tuple_size_v<TensorHead>}, at::kLong);
  comm.receive(head, from)->wait();
  TensorHead said;
  std::copy_n(head.const_data_ptr<int64_t>(), said.size(), said.begin());
  if (said[1] != share.end - share.begin)
    throw PeerError("rank {} sent {} values instead of {}", from, said[1], share.end - share.begin);
  at::Tensor values = at::empty({said[1]}, static_cast<at::ScalarType>(said[0]));
  if (said[1] > 0) comm.receive(values.view(at::kByte), from)->wait();
  if (head_of(values) != said)
    throw MachineError("resuming: the bytes that rank {} sent and rank {} received differ: the network corrupts data",
                       from, comm.rank());
  return values;
}

/// Values in flight to other ranks, kept alive until they have arrived.
class Sending {
 public:
  explicit Sending(dist::Comm& comm) : comm_(comm) {}

  void send(const at::Tensor& values, const std::vector<int>& to) {
    wait();
    values_ = values;
    head_ = at::tensor(c10::ArrayRef<int64_t>(head_of(values)), at::kLong);
    for (const int rank : to) {
      pending_.push_back(comm_.send(head_, rank));
      if (values.numel() > 0) pending_.push_back(comm_.send(values.view(at::kByte), rank));
    }
  }

  void wait() {
    for (const auto& pending : pending_) pending->wait();
    pending_.clear();
  }

 private:
  dist::Comm& comm_;
  at::Tensor head_, values_;
  std::vector<std::unique_ptr<dist::Pending>> pending_;
};

}  // namespace

// All ranks process the shards, and the machines for each shard, in the same order, so there is no cycle of waits.
void FolderAccess::hand_out(const std::vector<Share>& needed, const std::function<at::Tensor(int64_t)>& read,
                            const std::function<void(const Share&, const at::Tensor&)>& take) const {
  if (all_see()) return;
  Sending sending(*comm_);
  const int rank = comm_->rank();
  for (const auto& [number, needs] : needs_of_all(needed, *comm_)) {
    const int from = static_cast<int>(number % keepers_);
    at::Tensor piece;
    for (auto begin = needs.begin(), end = begin; begin != needs.end(); begin = end) {
      end = std::find_if(begin, needs.end(),
                         [&](const Need& need) { return machine_of(need.rank) != machine_of(begin->rank); });
      const Share share = hull({begin, end});
      const bool is_first = rank == begin->rank;
      if (rank == from) {
        if (!piece.defined()) piece = read(number).contiguous();
        sending.send(piece.narrow(0, share.begin, share.end - share.begin), {begin->rank});
      } else if (std::any_of(begin, end, [&](const Need& need) { return need.rank == rank; })) {
        const at::Tensor values = receive(*comm_, is_first ? from : begin->rank, share);
        if (is_first) sending.send(values, ranks_of({std::next(begin), end}));
        take(share, values);
      }
    }
  }
  sending.wait();
}

}  // namespace trainer::checkpoint
