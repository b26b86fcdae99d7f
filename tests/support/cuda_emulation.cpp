#include "tests/support/cuda_emulation.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves the registers that functions preserve and the stack pointer at `*save`, and continues on the other stack. (The
// C library's swapcontext() makes a system call, and under the address sanitizer clears the state of the whole stack.)
#if !defined(__x86_64__)
#error "the emulation of CUDA switches stacks, which is implemented for x86-64"
#endif
extern "C" void trainer_switch_stack(void** save, void* load);
asm(R"(
.text
.type trainer_switch_stack, @function
trainer_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size trainer_switch_stack, .-trainer_switch_stack
)");

namespace trainer::testing::emulation {
namespace {

constexpr size_t kStack = 256 * 1024;  // bytes; the address sanitizer makes frames large
constexpr unsigned kLanes = 32;

/// A thread of the block.
struct Thread {
  unsigned number = 0;
  dim3 index;
  const uint64_t* waits_for = nullptr;  // runs on when this is no longer `seen`
  uint64_t seen = 0;
  const char* waits_in = "";
  Place place{"", 0};
};

/// Lanes exchange values in two buffers, used in turn: a lane reads one until all lanes have come to the next exchange.
struct Warp {
  uint64_t exchanges = 0, barriers = 0;
  unsigned lanes = 0, arrived = 0, finished = 0;
  Place place{"", 0};
  uint64_t values[2][kLanes] = {};
};

/// Runs threads on a stack of its own, one after another; a thread that waits keeps the fiber until it is finished.
struct Fiber {
  void* top = nullptr;  // the stack pointer, while another stack runs
  std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(kStack);  // aligned to 16 bytes
  Thread* thread = nullptr;                                                        // null: the fiber is free
  void* fake_stack = nullptr;
};

std::string name_of(const dim3& i) {
  return "(" + std::to_string(i.x) + ", " + std::to_string(i.y) + ", " + std::to_string(i.z) + ")";
}
std::string name_of(const Place& place) {
  return std::string(place.file) + ":" + std::to_string(place.line);
}

class Block;
thread_local Block* t_block = nullptr;
thread_local std::vector<std::unique_ptr<Fiber>> t_free_fibers;  // between launches
thread_local uint64_t t_blocks = 0;                              // run by this thread

class Block {
 public:
  Block(dim3 grid, dim3 size, const std::function<void()>& body) : body_(body) {
    where_.grid = grid, where_.block = size;
    count_ = size.x * size.y * size.z;
    fibers_.swap(t_free_fibers);
  }
  /// After an error, fibers are in the middle of threads, and are given up.
  ~Block() {
    if (!error_) fibers_.swap(t_free_fibers);
  }

  void run(dim3 index);

  void sync_threads(Place place);
  const uint64_t* exchange(unsigned mask, uint64_t value, Place place);

  Thread& thread() { return *running_; }
  Warp& warp() { return warps_[running_->number / kLanes]; }
  const Indices& where() const { return where_; }
  Moment now() { return {number_, barriers_, warp().barriers, running_->number}; }

 private:
  static void fiber_main();
  void run_threads(Fiber& fiber);
  void finish();
  void wait(const uint64_t& until_changed, const char* in, Place place);
  void resume(Fiber& fiber);
  void suspend(Fiber& fiber);
  Fiber& free_fiber();
  std::string deadlock() const;

  const std::function<void()>& body_;
  Indices where_;
  unsigned count_ = 0, started_ = 0, finished_ = 0, arrived_ = 0;
  uint64_t number_ = 0, barriers_ = 0;
  Place barrier_{"", 0};
  std::vector<Thread> threads_;
  std::vector<Warp> warps_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  Thread* running_ = nullptr;
  Fiber* fiber_ = nullptr;
  void* scheduler_ = nullptr;  // its stack pointer, while a fiber runs
  const void* scheduler_stack_ = nullptr;
  size_t scheduler_stack_size_ = 0;
  std::exception_ptr error_;
};

void Block::run(dim3 index) {
  where_.block_index = index;
  number_ = ++t_blocks;
  started_ = finished_ = arrived_ = 0, barriers_ = 0;
  threads_.assign(count_, {});
  warps_.assign((count_ + kLanes - 1) / kLanes, {});
  for (unsigned i = 0; i < count_; ++i) {
    const dim3& size = where_.block;
    threads_[i].number = i;
    threads_[i].index = {i % size.x, i / size.x % size.y, i / size.x / size.y};
    ++warps_[i / kLanes].lanes;
  }
  while (finished_ < count_ && !error_) {
    if (started_ < count_) {
      resume(free_fiber());
      continue;
    }
    bool any = false;
    for (size_t i = 0; i < fibers_.size() && !error_; ++i) {
      const Thread* const thread = fibers_[i]->thread;
      if (thread == nullptr || *thread->waits_for == thread->seen) continue;
      any = true;
      resume(*fibers_[i]);
    }
    if (!any && finished_ < count_ && !error_) error_ = std::make_exception_ptr(EmulationError(deadlock()));
  }
  if (error_) std::rethrow_exception(error_);
}

Fiber& Block::free_fiber() {
  for (const auto& fiber : fibers_)
    if (fiber->thread == nullptr) return *fiber;
  fibers_.push_back(std::make_unique<Fiber>());
  Fiber& fiber = *fibers_.back();
  // Six registers, the function to return to, and the return address that it would have.
  auto** const top = reinterpret_cast<void**>(fiber.stack.get() + kStack) - 8;
  std::fill(top, top + 8, nullptr);
  top[6] = reinterpret_cast<void*>(&Block::fiber_main);
  fiber.top = top;
  return fiber;
}

void Block::resume(Fiber& fiber) {
  fiber_ = &fiber;
  running_ = fiber.thread;
  if (running_ != nullptr) where_.thread_index = running_->index;
#if defined(__SANITIZE_ADDRESS__)
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, fiber.stack.get(), kStack);
  trainer_switch_stack(&scheduler_, fiber.top);
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#else
  trainer_switch_stack(&scheduler_, fiber.top);
#endif
}

void Block::suspend(Fiber& fiber) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&fiber.fake_stack, scheduler_stack_, scheduler_stack_size_);
  trainer_switch_stack(&fiber.top, scheduler_);
  __sanitizer_finish_switch_fiber(fiber.fake_stack, &t_block->scheduler_stack_, &t_block->scheduler_stack_size_);
#else
  trainer_switch_stack(&fiber.top, scheduler_);
#endif
}

void Block::fiber_main() {
  Fiber& fiber = *t_block->fiber_;
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &t_block->scheduler_stack_, &t_block->scheduler_stack_size_);
#endif
  while (true) {
    t_block->run_threads(fiber);
    t_block->suspend(fiber);  // until the next block, perhaps of another launch
  }
}

void Block::run_threads(Fiber& fiber) {
  try {
    while (started_ < count_ && !error_) {
      running_ = fiber.thread = &threads_[started_++];
      where_.thread_index = running_->index;
      body_();
      finish();
    }
  } catch (...) {
    error_ = std::current_exception();
  }
  fiber.thread = nullptr;
}

void Block::finish() {
  const std::string who = "thread " + name_of(running_->index) + " of block " + name_of(where_.block_index) + " exits";
  ++finished_, ++warp().finished;
  if (arrived_ > 0) throw EmulationError(who + " while others wait at " + name_of(barrier_));
  if (warp().arrived > 0) throw EmulationError(who + " while lanes of its warp wait at " + name_of(warp().place));
}

void Block::wait(const uint64_t& until_changed, const char* in, Place place) {
  Thread& self = *running_;
  self.waits_for = &until_changed, self.seen = until_changed;
  self.waits_in = in, self.place = place;
  suspend(*fiber_);
}

void Block::sync_threads(Place place) {
  if (finished_ > 0) fail("a barrier that " + std::to_string(finished_) + " threads do not reach, because they exited");
  if (arrived_ == 0) barrier_ = place;
  if (!(place == barrier_))
    fail("a thread is at the barrier of " + name_of(place) + ", others at " + name_of(barrier_));
  if (++arrived_ < count_) return wait(barriers_, "the barrier of", place);
  arrived_ = 0;
  ++barriers_;
}

const uint64_t* Block::exchange(unsigned mask, uint64_t value, Place place) {
  Warp& own = warp();
  const unsigned all = own.lanes == kLanes ? 0xFFFFFFFF : (1U << own.lanes) - 1;
  if (mask != all)
    fail("the mask of a warp intrinsic does not name the " + std::to_string(own.lanes) + " lanes of the warp");
  if (own.finished > 0) fail("a warp intrinsic that " + std::to_string(own.finished) + " lanes do not reach");
  if (own.arrived == 0) own.place = place;
  if (!(place == own.place)) fail("a lane is at " + name_of(place) + ", others of its warp at " + name_of(own.place));
  uint64_t* const values = own.values[own.exchanges % 2];
  values[running_->number % kLanes] = value;
  if (++own.arrived < own.lanes) {
    wait(own.exchanges, "a warp intrinsic of", place);
  } else {
    own.arrived = 0;
    ++own.exchanges;
  }
  return values;
}

std::string Block::deadlock() const {
  std::string what = "threads wait for each other:";
  for (const auto& fiber : fibers_)
    if (fiber->thread != nullptr)
      what += "\n  thread " + name_of(fiber->thread->index) + " in " + fiber->thread->waits_in + " " +
              name_of(fiber->thread->place);
  return what;
}

}  // namespace

void run_grid(dim3 grid, dim3 block, const std::function<void()>& thread) {
  const uint64_t threads = uint64_t{block.x} * block.y * block.z;
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7FFFFFFF || grid.y > 0xFFFF || grid.z > 0xFFFF)
    throw EmulationError("a grid of " + name_of(grid) + " blocks");
  if (threads == 0 || threads > 1024 || block.z > 64) throw EmulationError("a block of " + name_of(block) + " threads");
  Block emulated(grid, block, thread);
  t_block = &emulated;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) emulated.run({x, y, z});
  t_block = nullptr;
}

const Indices& indices() {
  return t_block->where();
}

Moment now() {
  return t_block->now();
}

bool races(const Moment& earlier) {
  const Moment moment = now();
  if (earlier.block != moment.block || earlier.thread == moment.thread || earlier.barrier != moment.barrier)
    return false;
  const bool same_warp = earlier.thread / kLanes == moment.thread / kLanes;
  return !same_warp || earlier.warp_barrier == moment.warp_barrier;
}

void fail(const std::string& what) {
  const Indices& at = indices();
  throw EmulationError("block " + name_of(at.block_index) + ", thread " + name_of(at.thread_index) + ": " + what);
}

void sync_threads(Place place) {
  t_block->sync_threads(place);
}

const uint64_t* exchange(unsigned mask, uint64_t value, Place place) {
  return t_block->exchange(mask, value, place);
}

void sync_warp(unsigned mask, Place place) {
  const Warp& warp = t_block->warp();
  exchange(warp.lanes == kLanes ? mask : (1U << warp.lanes) - 1, 0, place);
  // Every lane passes here once per barrier; the first counts it.
  if (Warp& own = t_block->warp(); own.barriers < own.exchanges) own.barriers = own.exchanges;
}

unsigned lane() {
  return t_block->thread().number % kLanes;
}

unsigned lanes() {
  return t_block->warp().lanes;
}

}  // namespace trainer::testing::emulation
