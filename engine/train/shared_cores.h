// Notices that other threads use the cores on which this one computes.
#pragma once

#include <cstddef>
#include <deque>

namespace trainer::train {

/// Seconds that the calling thread has been ready to run but waited for a core, as the kernel counts them
/// (/proc/thread-self/schedstat); 0 where it doesn't.
double seconds_waited_for_core();
/// The same for all threads of this process together.
double seconds_all_waited_for_core();

/// Looks at the part of each update that the computing thread waits for a core. Time that it waits for data, a device
/// or other ranks isn't part of it, so a core that is merely idle is never taken for a busy one.
class SharedCores {
 public:
  static constexpr size_t kWindow = 20;     // updates
  static constexpr double kNoticed = 0.25;  // of an update's time; less is the noise of a machine in use

  /// Adds an update that took `seconds`, of which the thread waited `waited`. Returns the part waited in the window the
  /// first time that it is kNoticed or more in half of its updates, otherwise 0.
  double see(double seconds, double waited);

 private:
  struct Update {
    double seconds, waited;
  };
  std::deque<Update> window_;
  bool reported_ = false;
};

}  // namespace trainer::train
