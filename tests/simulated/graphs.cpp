#include "tests/simulated/graphs.h"

#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include <c10/util/Exception.h>

#include "tests/simulated/device.h"
#include "tests/simulated/memory.h"

namespace trainer::simulated {
namespace {

using Step = std::function<void()>;

struct Recording {
  StreamNumber stream;
  std::shared_ptr<Pool> pool;
  std::vector<Step> steps;
  std::vector<Range> reads, writes;
};

std::atomic<Recording*> active{nullptr};  // one at a time

/// All memory of the device outside of freed blocks of pools, to be put back.
class SavedMemory {
 public:
  SavedMemory() {
    for (const auto& [address, bytes] : blocks_in_use()) {
      const auto* const begin = static_cast<const char*>(found(address));
      saved_[address].assign(begin, begin + bytes);
    }
  }
  /// What was allocated since becomes NaN.
  ~SavedMemory() {
    for (const auto& [address, bytes] : all_blocks()) {
      const auto known = saved_.find(address);
      if (known != saved_.end())
        std::memcpy(found(address), known->second.data(), known->second.size());
      else if (is_in_pool(address))
        std::memset(found(address), 0xFF, bytes);
    }
  }
  SavedMemory(const SavedMemory&) = delete;
  SavedMemory& operator=(const SavedMemory&) = delete;

 private:
  std::map<const void*, std::vector<char>> saved_;
};

/// Removes ranges within others.
std::vector<Range> without_repetition(std::vector<Range> ranges) {
  std::map<std::pair<uintptr_t, uintptr_t>, Range> all;
  for (const Range& range : ranges) all[{range.begin, range.end}] = range;
  ranges.clear();
  for (const auto& [key, range] : all) ranges.push_back(range);
  return ranges;
}

class Graph : public dist::Graph {
 public:
  explicit Graph(Recording recording) : pool_(std::move(recording.pool)), steps_(std::move(recording.steps)) {
    const auto outside = [](const Range& range) { return !is_in_pool(reinterpret_cast<const void*>(range.begin)); };
    for (auto* list : {&recording.reads, &recording.writes}) {
      for (const Range& range : without_repetition(*list)) {
        if (!outside(range)) continue;
        (list == &recording.reads ? reads_ : writes_).push_back(range);
        needed_.push_back(block_at(reinterpret_cast<const void*>(range.begin)));
      }
    }
  }

  void replay() override {
    refuse_while_recording("a graph");
    for (const BlockId& block : needed_)
      TORCH_CHECK(is_alive(block), "a graph uses memory that was freed after its recording");
    std::vector<Range> writes = writes_;
    for (const Range& block : pool_->ranges()) {
      writes.push_back(block);
      timeline().used_on(block.begin, current_stream());
    }
    note_kernel("a graph", reads_, writes);
    const WithinOperator guard;
    for (const Step& step : steps_) step();
  }

 private:
  std::shared_ptr<Pool> pool_;
  std::vector<Step> steps_;
  std::vector<Range> reads_, writes_;  // outside of the pool
  std::vector<BlockId> needed_;
};

class Recorder : public dist::GraphRecorder {
 public:
  std::unique_ptr<dist::Graph> record(const std::function<void()>& work) override {
    TORCH_CHECK(current_stream() != default_stream(), "CUDA graphs must be captured on a non-default stream.");
    refuse_while_recording("a second recording");
    Recording recording{current_stream(), pool_, {}, {}, {}};
    {
      const SavedMemory saved;
      const Active guard(recording);
      work();
    }
    return std::make_unique<Graph>(std::move(recording));
  }

 private:
  struct Active {
    explicit Active(Recording& recording) {
      active = &recording;
      use_pool(recording.pool.get(), recording.stream);
    }
    ~Active() {
      use_pool(nullptr, kHost);
      active = nullptr;
    }
  };

  std::shared_ptr<Pool> pool_ = std::make_shared<Pool>();
};

}  // namespace

bool recording() {
  return active != nullptr && is_recorded(current_stream());
}

bool is_recorded(StreamNumber stream) {
  const Recording* const now = active;
  return now != nullptr && now->stream == stream;
}

void refuse_while_recording(const std::string& what) {
  TORCH_CHECK(active == nullptr, "operation not permitted when stream is capturing: ", what);
}

void record_step(const std::vector<Range>& reads, const std::vector<Range>& writes, std::function<void()> run) {
  Recording& now = *active;
  now.steps.push_back(std::move(run));
  now.reads.insert(now.reads.end(), reads.begin(), reads.end());
  now.writes.insert(now.writes.end(), writes.begin(), writes.end());
}

std::unique_ptr<dist::GraphRecorder> graph_recorder() {
  return std::make_unique<Recorder>();
}

}  // namespace trainer::simulated
