#include "engine/dist/mpi/exchange.h"

#include <algorithm>
#include <cstring>

namespace trainer::dist {
namespace {

constexpr int64_t kSegmentBytes = 8 << 20;      // in flight at a time
constexpr int kPiecesTag = 1, kResultsTag = 2;  // 0: send() and recv()

class Exchange {
 public:
  explicit Exchange(const ReduceTask& task)
      : task_(task), segment_(std::max<int64_t>(task.size, kSegmentBytes / task.element_bytes)) {}

  int64_t segments() const { return (task_.count + segment_ - 1) / segment_; }

  /// Ends segment k - 1 and begins segment k, if they exist.
  std::vector<MPI_Request> step(int64_t k) {
    std::vector<MPI_Request> requests;
    if (k > 0) {
      reduce(k - 1);
      exchange_results(k - 1, requests);
    }
    if (k < segments()) exchange_pieces(k, requests);
    return requests;
  }

 private:
  /// The elements of segment k that `rank` owns.
  struct Range {
    int64_t begin;
    int count;
  };
  Range owned(int64_t k, int rank) const {
    const int64_t begin = k * segment_, all = std::min(segment_, task_.count - begin);
    const int64_t first = all * rank / task_.size, last = all * (rank + 1) / task_.size;
    return {begin + first, static_cast<int>(last - first)};
  }
  char* at(const Range& range) const { return task_.data + range.begin * task_.element_bytes; }

  /// The buffer for the slice of segment k from `rank`. Two segments are in flight at a time.
  char* piece(int64_t k, int rank) {
    const auto bytes = static_cast<size_t>((segment_ / task_.size + 1) * task_.element_bytes);
    auto& pieces = pieces_[k % 2];
    if (pieces.empty()) pieces.resize(bytes * static_cast<size_t>(task_.size));
    return pieces.data() + bytes * static_cast<size_t>(rank);
  }

  void exchange_pieces(int64_t k, std::vector<MPI_Request>& requests) {
    const Range mine = owned(k, task_.rank);
    for (int other = 0; other < task_.size; ++other) {
      if (other == task_.rank) continue;
      const Range its = owned(k, other);
      receive(piece(k, other), mine.count, other, kPiecesTag, requests);
      send(at(its), its.count, other, kPiecesTag, requests);
    }
  }

  void exchange_results(int64_t k, std::vector<MPI_Request>& requests) {
    const Range mine = owned(k, task_.rank);
    for (int other = 0; other < task_.size; ++other) {
      if (other == task_.rank) continue;
      const Range its = owned(k, other);
      receive(at(its), its.count, other, kResultsTag, requests);
      send(at(mine), mine.count, other, kResultsTag, requests);
    }
  }

  /// Reduces the slices in rank order, starting with rank 0.
  void reduce(int64_t k) {
    const Range mine = owned(k, task_.rank);
    const MpiReduction reduction = mpi_reduction(task_.type, task_.op);
    char* const sum = task_.rank == 0 ? at(mine) : piece(k, 0);
    for (int rank = 1; rank < task_.size; ++rank) {
      char* const next = rank == task_.rank ? at(mine) : piece(k, rank);
      check_mpi(MPI_Reduce_local(next, sum, mine.count, reduction.type, reduction.op), "MPI_Reduce_local");
    }
    if (task_.rank != 0) std::memcpy(at(mine), sum, static_cast<size_t>(mine.count * task_.element_bytes));
  }

  void send(const char* from, int count, int to, int tag, std::vector<MPI_Request>& requests) {
    check_mpi(MPI_Isend(from, count, word(), to, tag, task_.comm, &requests.emplace_back()), "MPI_Isend");
  }
  void receive(char* to, int count, int from, int tag, std::vector<MPI_Request>& requests) {
    check_mpi(MPI_Irecv(to, count, word(), from, tag, task_.comm, &requests.emplace_back()), "MPI_Irecv");
  }
  MPI_Datatype word() const { return mpi_word(static_cast<size_t>(task_.element_bytes)); }

  ReduceTask task_;
  int64_t segment_;  // elements
  std::vector<char> pieces_[2];
};

}  // namespace

std::vector<MpiStage> reduce_by_exchange(const ReduceTask& task) {
  const auto exchange = std::make_shared<Exchange>(task);
  std::vector<MpiStage> stages;
  for (int64_t k = 0; k <= exchange->segments(); ++k) stages.push_back([exchange, k] { return exchange->step(k); });
  return stages;
}

}  // namespace trainer::dist
