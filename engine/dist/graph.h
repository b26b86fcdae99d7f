// Recorded operators of a device, which the host repeats with one launch.
#pragma once

#include <functional>
#include <memory>

namespace trainer::dist {

/// The operators of a recording (a CUDA graph), with the addresses and numbers that they were given then.
class Graph {
 public:
  virtual ~Graph() = default;
  /// Launches them all on the current stream. They use the values that the memory has then.
  virtual void replay() = 0;
};

/// Makes graphs. What their operators allocate is memory of all graphs together, so the values there are lost when
/// another graph runs.
class GraphRecorder {
 public:
  virtual ~GraphRecorder() = default;
  /// Records the operators that `work` gives the current stream, which is not the device's default one; they have no
  /// effect until the graph is replayed. All memory from before, of the device and pinned, that they use must outlive
  /// the graph. Run the same work on the same stream once before: what libtorch prepares in a first call can't be
  /// recorded. Errors: std::exception, for all that a device refuses during a recording, such as waits of the host; the
  /// device is then as before.
  virtual std::unique_ptr<Graph> record(const std::function<void()>& work) = 0;
};

}  // namespace trainer::dist
