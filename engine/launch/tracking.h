// The process that sends a run's records to a tracking server.
#pragma once

#include <sys/types.h>

#include "engine/base/file_descriptor.h"
#include "engine/config/sections.h"

namespace trainer::launch {

/// Starts trainer-tracker if logging.report_to has mlflow; it follows metrics.jsonl in output_dir, so neither a rank
/// nor the launcher ever waits for the server.
class Tracking {
 public:
  /// Errors: ConfigError when the variables don't name a server; MachineError when the program can't be started.
  explicit Tracking(const config::Config& config);
  /// As of a launcher that was killed.
  ~Tracking();
  Tracking(const Tracking&) = delete;
  Tracking& operator=(const Tracking&) = delete;

  /// The run has ended with this exit code and its files are written. Returns when they are sent, after several seconds
  /// at most.
  void end(int code);

 private:
  void start();
  void introduce(const config::Config& config);

  pid_t pid_ = 0;  // 0: none runs
  FileDescriptor input_, answer_;
};

}  // namespace trainer::launch
