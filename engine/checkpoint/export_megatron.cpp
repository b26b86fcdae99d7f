#include "engine/checkpoint/export_megatron.h"

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/weights/write_megatron.h"

namespace trainer::checkpoint {

void export_megatron(const std::filesystem::path& source, const std::filesystem::path& output,
                     const MegatronDegrees& degrees) {
  const at::NoGradGuard no_grad;
  write_megatron(open_whole_weights(source), source, output, degrees);
}

}  // namespace trainer::checkpoint
