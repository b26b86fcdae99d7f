#pragma once

namespace trainer {

// Note [Signals]
// In a process that computes, signals are received by a thread that does nothing else. The kernel writes a signal's
// frame below the stack pointer of the thread that receives it, and some matrix products of oneDNN use that register
// for data on the heap (Note [fp32 products]): the frame would overwrite another object's memory. Handlers stay as they
// are; they only run on that thread.

/// From now on, the process's signals are received by a thread of their own: this thread and those that it starts
/// block all but those that they cause themselves, such as SIGSEGV. Called once, before the first other thread. Errors:
/// std::system_error if no thread can be started.
void receive_signals_on_own_thread();

}  // namespace trainer
