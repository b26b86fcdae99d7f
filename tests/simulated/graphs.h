// Recorded operators of the simulated device. See Note [Recorded graphs].
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/dist/graph.h"
#include "tests/simulated/timeline.h"

namespace trainer::simulated {

// Note [Recorded graphs]
// As while CUDA captures a stream, what the recorded stream is given has no effect: operators run, so that libtorch
// gets results of the right shapes, but at the end all memory has its values of the beginning again. What they allocate
// belongs to the recorder's pool, whose freed blocks later operators of the recording get; it holds 0xFF (NaN) until a
// replay. A replay runs the same operators on the same addresses, with the values that lie there then. Numbers and
// tensors of one value on the host are those of the recording. An error, as on CUDA: a wait of the host, a copy from
// unpinned memory or to the host, an event that another stream waits for, a new seed of the generator; and where CUDA
// says nothing, memory of the device or pinned memory that was used in the recording and is gone in a replay.

/// Whether the calling thread's current stream is recorded.
bool recording();
bool is_recorded(StreamNumber stream);
/// Throws what CUDA would if any stream is recorded.
void refuse_while_recording(const std::string& what);
/// Adds an operator, which has run, to the recording. `run` runs it again: it refers to memory by address only.
void record_step(const std::vector<Range>& reads, const std::vector<Range>& writes, std::function<void()> run);

/// The device's recorder. Its pool lives as long as it or one of its graphs.
std::unique_ptr<dist::GraphRecorder> graph_recorder();

}  // namespace trainer::simulated
