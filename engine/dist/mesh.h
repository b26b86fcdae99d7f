// The device mesh: the ranks of a run, arranged along axes. Each axis is one kind of parallelism.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Ranks along each axis. Their product is the number of ranks.
struct Degrees {
  int64_t replicate = 1;  // replicas of the model, which train on different samples
  int64_t shard = 1;      // ranks that shard one replica's parameters, and train on different samples
  int64_t context = 1;    // ranks that split each sequence
  int64_t tensor = 1;     // ranks that split each layer
  int64_t pipeline = 1;   // ranks that split the stack of layers

  int64_t product() const { return replicate * shard * context * tensor * pipeline; }
};

/// One communicator for each axis. Neighbors along `tensor` have adjacent ranks, as they communicate most; then come
/// context, shard, replicate, and pipeline as the slowest (the order of Megatron and of Accelerate's device mesh).
/// An axis of one rank has no communication; an axis of all ranks is the world itself.
class Mesh {
 public:
  /// Collective over `world`, which must outlive the mesh. Errors: InternalError when the product is not its size.
  Mesh(Comm& world, const Degrees& degrees);

  const Degrees& degrees() const { return degrees_; }
  Comm& world() const { return world_; }
  Comm& replicate() const { return *replicate_.comm; }
  /// Ranks that shard one replica's parameters: shard x context, as ranks that split a sequence need no extra replicas.
  Comm& shard() const { return *shard_.comm; }
  Comm& context() const { return *context_.comm; }
  Comm& tensor() const { return *tensor_.comm; }
  Comm& pipeline() const { return *pipeline_.comm; }
  /// Ranks with different samples: replicate x shard. Ranks with the same index in it work on the same samples.
  Comm& data() const { return *data_.comm; }
  /// Ranks with different tokens, which sum their gradients: data x context.
  Comm& tokens() const { return *tokens_.comm; }

 private:
  struct Axis {
    Comm* comm = nullptr;
    std::unique_ptr<Comm> own;
  };
  /// The ranks that differ from this one only along the axes of `mask`, one bit per axis from the fastest.
  std::vector<int> ranks_along(unsigned mask) const;
  Axis make_axis(const std::string& name, unsigned mask);

  Comm& world_;
  Degrees degrees_;
  Axis replicate_, shard_, context_, tensor_, pipeline_, data_, tokens_;
};

/// Shared by everything that is distributed along its axes.
using MeshPtr = std::shared_ptr<const Mesh>;

}  // namespace trainer::dist
