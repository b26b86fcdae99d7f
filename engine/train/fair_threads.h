// How many threads a rank computes with while other programs use its cores.
#pragma once

#include <functional>
#include <optional>

namespace trainer::train {

// Note [Fair threads]
// The threads of an operator wait for each other at its end. If another program uses the core of one of them, all wait
// until the kernel lets that one run again, a few milliseconds for each of an update's hundreds of operators: with one
// busy program on two cores, an update took four times as long, and with one thread less, which leaves the program a
// core, 1.7 times. So a rank whose threads wait for cores computes with fewer, and now and then tries all of them.
//
// No bit of a run depends on it: it is done only where products don't depend on the number of threads, as the other
// operators don't (nn::products_ignore_threads()).
class FairThreads {
 public:
  /// `waited`: seconds that this process's threads, all together, have been ready to run but waited for a core.
  FairThreads(int most, std::function<double()> waited);

  /// Called after each update. `now`: seconds of a clock that only goes forward. Returns the number of threads from now
  /// on.
  int after_update(double now);

  static constexpr double kWindow = 0.3;                        // seconds in which waits are counted
  static constexpr double kNoticed = 0.3;                       // of a core; less is the noise of a machine in use
  static constexpr double kFirstPause = 5, kLongestPause = 60;  // seconds until all threads are tried again

 private:
  void begin_window(double now, int threads);

  int most_, threads_;
  std::function<double()> waited_;
  double pause_ = kFirstPause;
  std::optional<double> begin_;  // of the window, or of the pause
  double waited_before_ = 0;
};

}  // namespace trainer::train
