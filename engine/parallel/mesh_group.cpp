#include "engine/parallel/mesh_group.h"

#include <ATen/ops/empty.h>

namespace trainer::parallel {
namespace {

class MeshGroup : public nn::TensorGroup {
 public:
  MeshGroup(dist::MeshPtr mesh, dist::Comm& comm) : mesh_(std::move(mesh)), comm_(comm) {}

  void sum(const at::Tensor& tensor) const override { reduce(tensor, dist::Reduce::kSum); }
  void max(const at::Tensor& tensor) const override { reduce(tensor, dist::Reduce::kMax); }
  at::Tensor gather(const at::Tensor& mine) const override {
    const at::Tensor all = at::empty({mine.size(0) * comm_.size(), mine.size(1)}, mine.options());
    if (all.numel() > 0) comm_.all_gather(all.view(-1), mine.view(-1))->wait();
    return all;
  }
  int rank() const override { return comm_.rank(); }
  int size() const override { return comm_.size(); }

 private:
  void reduce(const at::Tensor& tensor, dist::Reduce op) const {
    if (tensor.numel() > 0) comm_.all_reduce(tensor, op);
  }

  dist::MeshPtr mesh_;  // owns the communicator
  dist::Comm& comm_;
};

}  // namespace

std::shared_ptr<const nn::TensorGroup> group_along(const dist::MeshPtr& mesh, dist::Comm& (dist::Mesh::*axis)() const) {
  return std::make_shared<MeshGroup>(mesh, (*mesh.*axis)());
}

}  // namespace trainer::parallel
