#include "engine/launch/boards.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/files.h"

namespace trainer::launch {
namespace {

GroupState read_group(const BoardMemory::Group& memory) {
  GroupState state;
  state.group = memory.group.load().value_or(CollectiveGroup{});
  state.done = memory.done.load(std::memory_order_acquire);
  for (const auto& slot : memory.recent)
    if (const auto call = slot.load(); call && call->number > 0) state.recent.push_back(*call);
  std::sort(state.recent.begin(), state.recent.end(), [](const auto& a, const auto& b) { return a.number < b.number; });
  if (!state.recent.empty()) state.last = state.recent.back().number;
  return state;
}

}  // namespace

Boards::Boards(int ranks)
    : bytes_(sizeof(BoardMemory) * static_cast<size_t>(ranks)), file_(memfd_create("trainer boards", MFD_CLOEXEC)) {
  const bool sized = file_ && ftruncate(file_.get(), static_cast<off_t>(bytes_)) == 0;
  void* const at = sized ? mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file_.get(), 0) : MAP_FAILED;
  if (at == MAP_FAILED) throw machine_error("allocate", "memory to watch the ranks", errno);
  boards_ = static_cast<const BoardMemory*>(at);
}

Boards::~Boards() {
  munmap(const_cast<BoardMemory*>(boards_), bytes_);
}

RankState Boards::read(int local_rank, int rank) const {
  const BoardMemory& board = boards_[local_rank];
  RankState state{.rank = rank, .beats = board.beats.load(std::memory_order_acquire)};
  if (state.beats == 0) return state;
  if (const auto place = board.place.load()) {
    state.step = place->step;
    state.phase = place->phase.view();
  }
  state.hides_waits = board.hides_waits.load(std::memory_order_relaxed);
  const auto wait = board.wait.load();  // before the groups, so that the call it names is among them
  const uint32_t count = std::min<uint32_t>(board.group_count.load(std::memory_order_acquire), BoardMemory::kGroups);
  for (uint32_t g = 0; g < count; ++g) state.groups.push_back(read_group(board.groups[g]));
  if (wait && wait->number > 0 && wait->group >= 0 && wait->group < static_cast<int64_t>(count)) {
    state.waits_in = static_cast<int>(wait->group);
    state.waits_for = wait->number;
  }
  return state;
}

std::string Boards::unreadable_file(int local_rank) const {
  const auto file = boards_[local_rank].unreadable.load();
  return file ? std::string(file->view()) : "";
}

}  // namespace trainer::launch
