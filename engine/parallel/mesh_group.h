#pragma once

#include <memory>

#include "engine/dist/mesh.h"
#include "models/nn/tensor_group.h"

namespace trainer::parallel {

/// The ranks along one axis of the mesh, in the interface that layers use.
std::shared_ptr<const nn::TensorGroup> group_along(const dist::MeshPtr& mesh, dist::Comm& (dist::Mesh::*axis)() const);

}  // namespace trainer::parallel
