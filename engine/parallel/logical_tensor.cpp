#include "engine/parallel/logical_tensor.h"

#include <iterator>

namespace trainer::parallel {

LogicalTensor logical_tensor_of(const nn::Parameter& parameter, int64_t begin, int64_t end, const dist::Comm& replicas,
                                const std::set<int>& stages, const dist::Mesh& mesh) {
  LogicalTensor tensor{parameter.name, parameter.aliases, parameter.whole_shape(), parameter.trainable, begin, end};
  tensor.part = parameter.part;
  tensor.storage = parameter.storage;
  const auto copied_along = [&tensor](int64_t ranks, int64_t rank) {
    tensor.copies *= ranks;
    tensor.copy = tensor.copy * ranks + rank;
  };
  if (stages.size() > 1)
    copied_along(std::ssize(stages), std::distance(stages.begin(), stages.find(mesh.pipeline().rank())));
  copied_along(replicas.size(), replicas.rank());
  if (parameter.part.whole()) copied_along(mesh.tensor().size(), mesh.tensor().rank());
  return tensor;
}

}  // namespace trainer::parallel
