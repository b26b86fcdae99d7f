// A machine that looks for machine 0.
#pragma once

#include "engine/launch/address.h"
#include "engine/launch/meeting.h"

namespace trainer::launch {

class Guest {
 public:
  Guest(const Appointment& appointment, const Introduction& own, SignalQueue& signals)
      : appointment_(appointment), own_(own), signals_(signals) {}

  struct Joined {
    Machines machines;
    bool waits = false;  // for the next life
  };
  /// Connects to machine 0, again and again until it answers; what it waits for is said on standard error.
  /// Errors: PeerError when it doesn't answer in time, or has another secret or version; StoppedBeforeStart.
  Joined join();

 private:
  /// Nobody is there yet, or nobody who answers: another try may go better.
  struct NotYet {
    std::string why;
  };

  Joined try_once();
  FileDescriptor connect();
  LinkMessage answer(MachineLine& line);

  const Appointment& appointment_;
  const Introduction& own_;
  SignalQueue& signals_;
};

}  // namespace trainer::launch
