#include "engine/launch/held_notice.h"

#include "engine/launch/background.h"
#include "engine/launch/held_process.h"
#include "engine/launch/screen.h"

namespace trainer::launch {

HeldNotice::HeldNotice(std::chrono::milliseconds patience, pid_t pid) {
  try {
    thread_ = in_background([this, patience, pid] { watch(patience, pid); });
  } catch (const MachineError&) {  // without a thread there is no notice
  }
}

HeldNotice::~HeldNotice() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  if (thread_.valid()) thread_.wait();
}

void HeldNotice::watch(std::chrono::milliseconds patience, pid_t pid) {
  constexpr int kLooks = 10;  // a busy disk holds a process often, but rarely at each look
  int held = 0;
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, patience / kLooks, [this] { return ends_; })) {
    const std::string state = uninterruptible(pid, /*main_thread=*/true);
    held = state.empty() ? 0 : held + 1;
    if (held == kLooks)
      say("trainer: waiting for a file: the launcher is in {}\n  a disk or a file server does not respond; until it "
          "does, signals have no effect\n",
          state);
  }
}

}  // namespace trainer::launch
