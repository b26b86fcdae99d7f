// The ranks of a run, ordered along axes: each axis is one way of sharing the work.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/dist/comm.h"

namespace trainer::dist {

/// Ranks along each axis. Their product is the number of ranks.
struct Degrees {
  int64_t replicate = 1;  // copies of the model that see different samples
  int64_t shard = 1;      // ranks that share one copy's parameters, and see different samples
  int64_t context = 1;    // ranks that share each sequence
  int64_t tensor = 1;     // ranks that share each layer
  int64_t pipeline = 1;   // ranks that share the stack of layers

  int64_t product() const { return replicate * shard * context * tensor * pipeline; }
};

/// One communicator for each axis. Neighbours along `tensor` have neighbouring ranks, as they exchange most; then come
/// context, shard, replicate, and pipeline as the slowest (Megatron's order, and that of Accelerate's device mesh).
/// An axis of one rank is alone, one of all ranks is the world itself.
class Mesh {
 public:
  /// Collective over `world`, which must outlive the mesh. Errors: InternalError when the product is not its size.
  Mesh(Comm& world, const Degrees& degrees);

  const Degrees& degrees() const { return degrees_; }
  Comm& world() const { return world_; }
  Comm& replicate() const { return *replicate_.comm; }
  /// Ranks that share one copy's parameters: shard x context, as those of a sequence need no copies of their own.
  Comm& shard() const { return *shard_.comm; }
  Comm& context() const { return *context_.comm; }
  Comm& tensor() const { return *tensor_.comm; }
  Comm& pipeline() const { return *pipeline_.comm; }
  /// Ranks that see different samples: replicate x shard. Those of one data rank work on the same samples.
  Comm& data() const { return *data_.comm; }
  /// Ranks that see different tokens, and add up their gradients: data x context.
  Comm& tokens() const { return *tokens_.comm; }

 private:
  struct Axis {
    Comm* comm = nullptr;
    std::unique_ptr<Comm> own;
  };
  /// The ranks that differ from this one only along the axes of `mask`, a bit for each axis from the fastest.
  std::vector<int> ranks_along(unsigned mask) const;
  Axis make_axis(const std::string& name, unsigned mask);

  Comm& world_;
  Degrees degrees_;
  Axis replicate_, shard_, context_, tensor_, pipeline_, data_, tokens_;
};

/// Shared by all that is spread along its axes.
using MeshPtr = std::shared_ptr<const Mesh>;

}  // namespace trainer::dist
