#include "engine/base/rank_board.h"

#include <fcntl.h>
#include <sys/mman.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "engine/base/bus_error.h"
#include "engine/base/errors.h"
#include "engine/base/file_descriptor.h"
#include "engine/base/signals_blocked.h"

namespace trainer {
namespace {

constexpr std::chrono::milliseconds kBeat{200};

/// FNV-1a, eight bytes at a time.
uint64_t mixed(uint64_t hash, const void* data, size_t size) {
  const auto* bytes = static_cast<const unsigned char*>(data);
  while (size > 0) {
    uint64_t word = 0;
    const size_t taken = std::min(size, sizeof word);
    std::memcpy(&word, bytes, taken);
    hash = (hash ^ word) * 0x100000001b3;
    hash ^= hash >> 29;
    bytes += taken;
    size -= taken;
  }
  return hash;
}

uint64_t signature_of(const Collective& call, uint64_t before) {
  uint64_t hash = mixed(before + 0xcbf29ce484222325, &call.kind, sizeof call.kind);
  hash = mixed(hash, &call.elements, sizeof call.elements);
  hash = mixed(hash, call.dtype.bytes, sizeof call.dtype.bytes);
  // The two ends of a transfer may be in different units.
  return call.kind == CollectiveKind::kTransfer ? hash : mixed(hash, call.what.bytes, sizeof call.what.bytes);
}

void note_bus_errors_on(std::shared_ptr<BoardMemory> board) {
  static const std::shared_ptr<BoardMemory>* own = nullptr;  // until the process has ended
  own = new std::shared_ptr<BoardMemory>(std::move(board));
  on_bus_error([](const char* path, size_t length) { (*own)->unreadable.store(std::string_view(path, length)); });
}

}  // namespace

std::shared_ptr<RankBoard> RankBoard::from_environment() {
  const char* const text = std::getenv(kBoardVariable);
  if (text == nullptr) return std::make_shared<RankBoard>(std::make_shared<BoardMemory>());
  const char* const place = std::getenv("LOCAL_RANK");
  int number = -1, local_rank = 0;
  std::from_chars(text, text + std::strlen(text), number);
  if (place != nullptr) std::from_chars(place, place + std::strlen(place), local_rank);
  const FileDescriptor file(number);
  unsetenv(kBoardVariable);  // the number means nothing to a program this rank may start
  constexpr size_t kSize = sizeof(BoardMemory);
  // Mapped from the beginning of the file: a board isn't page-aligned.
  const size_t size = kSize * (static_cast<size_t>(local_rank) + 1);
  void* const at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  if (at == MAP_FAILED && errno == ENOMEM)
    throw MachineError("cannot map the memory by which the launcher watches ranks: {}", std::strerror(errno));
  if (at == MAP_FAILED)
    throw PeerError("{}={} is not an open file: start ranks with `trainer launch`, not by hand", kBoardVariable, text);
  const std::shared_ptr<void> whole(at, [size](void* p) { munmap(p, size); });
  auto* const mine = reinterpret_cast<BoardMemory*>(static_cast<char*>(at) + size - kSize);
  const std::shared_ptr<BoardMemory> board(whole, mine);
  note_bus_errors_on(board);
  return std::make_shared<RankBoard>(board);
}

RankBoard::RankBoard(std::shared_ptr<BoardMemory> memory) : memory_(std::move(memory)) {
  memory_->wait.store({});
  memory_->place.store({});
  memory_->beats.store(1, std::memory_order_release);  // publishes the values above
  const AllSignalsBlocked inherited_by_the_thread;
  heart_ = std::thread([this] { beat(); });
}

RankBoard::~RankBoard() {
  {
    const std::lock_guard lock(end_mutex_);
    ends_ = true;
  }
  ended_.notify_all();
  heart_.join();
}

void RankBoard::beat() {
  std::unique_lock lock(end_mutex_);
  while (!ended_.wait_for(lock, kBeat, [this] { return ends_; }))
    memory_->beats.fetch_add(1, std::memory_order_relaxed);
}

void RankBoard::set_place(int64_t step, std::string_view phase) {
  const std::lock_guard lock(mutex_);
  step_.store(step, std::memory_order_relaxed);
  memory_->place.store({step, phase});
}

int RankBoard::add_group(std::string_view name, const std::vector<int>& members) {
  const std::lock_guard lock(mutex_);
  const uint32_t count = memory_->group_count.load(std::memory_order_relaxed);
  if (count == BoardMemory::kGroups) {
    hide_waits();
    return -1;
  }
  CollectiveGroup group{.name = name};
  for (int rank : members) group.add_member(rank);
  memory_->groups[count].group.store(group);
  memory_->group_count.store(count + 1, std::memory_order_release);
  return static_cast<int>(count);
}

uint64_t RankBoard::begin(int group, CollectiveKind kind, int64_t elements, std::string_view dtype,
                          std::string_view what) {
  if (group < 0) return 0;
  const std::lock_guard lock(mutex_);
  BoardMemory::Group& memory = memory_->groups[static_cast<size_t>(group)];
  Collective call{.number = memory.last.load(std::memory_order_relaxed) + 1,
                  .elements = elements,
                  .kind = kind,
                  .dtype = dtype,
                  .what = what};
  uint64_t& signature = signatures_[static_cast<size_t>(group)];
  call.signature = signature = signature_of(call, signature);
  memory.recent[call.number % BoardMemory::kRecent].store(call);
  memory.last.store(call.number, std::memory_order_release);
  return call.number;
}

void RankBoard::wait(int group, uint64_t number) {
  if (group < 0) return;
  const std::lock_guard lock(mutex_);
  memory_->wait.store(wait_ = {group, number});
}

void RankBoard::end(int group, uint64_t number) {
  if (group < 0) return;
  const std::lock_guard lock(mutex_);
  BoardMemory::Group& memory = memory_->groups[static_cast<size_t>(group)];
  if (memory.done.load(std::memory_order_relaxed) < number) memory.done.store(number, std::memory_order_release);
  if (wait_.group == group && wait_.number == number) memory_->wait.store(wait_ = {});
}

}  // namespace trainer
