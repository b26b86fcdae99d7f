#include "engine/dist/mesh.h"

#include <iterator>

#include "engine/base/errors.h"

namespace trainer::dist {
namespace {

// From the fastest axis to the slowest.
enum : unsigned { kTensor = 1, kContext = 2, kShard = 4, kReplicate = 8, kPipeline = 16 };

}  // namespace

Mesh::Mesh(Comm& world, const Degrees& degrees) : world_(world), degrees_(degrees) {
  if (degrees.product() != world.size())
    throw InternalError("a mesh of {} ranks over a world of {}", degrees.product(), world.size());
  // The same order on every rank: creating a group is a collective of its ranks.
  tensor_ = make_axis("tensor", kTensor);
  context_ = make_axis("context", kContext);
  shard_ = make_axis("shard", kShard | kContext);
  replicate_ = make_axis("replicate", kReplicate);
  pipeline_ = make_axis("pipeline", kPipeline);
  data_ = make_axis("data", kShard | kReplicate);
  tokens_ = make_axis("tokens", kShard | kReplicate | kContext);
}

std::vector<int> Mesh::ranks_along(unsigned mask) const {
  const int64_t sizes[] = {degrees_.tensor, degrees_.context, degrees_.shard, degrees_.replicate, degrees_.pipeline};
  std::vector<int> ranks;
  for (int other = 0; other < world_.size(); ++other) {
    bool along = true;
    int64_t mine = world_.rank(), its = other;
    for (unsigned axis = 0; axis < std::size(sizes); ++axis) {
      along = along && ((mask >> axis & 1U) != 0 || mine % sizes[axis] == its % sizes[axis]);
      mine /= sizes[axis];
      its /= sizes[axis];
    }
    if (along) ranks.push_back(other);
  }
  return ranks;
}

Mesh::Axis Mesh::make_axis(const std::string& name, unsigned mask) {
  const std::vector<int> ranks = ranks_along(mask);
  if (static_cast<int>(ranks.size()) == world_.size()) return {&world_, nullptr};
  std::unique_ptr<Comm> own = world_.group(name, ranks);
  Comm* const comm = own.get();
  return {comm, std::move(own)};
}

}  // namespace trainer::dist
