// All optimizers, over the trained tensors of a model. To add one: a file, and a declaration and a row here. (Its name
// and options: engine/config/optimizers.h.)
#pragma once

#include <memory>

#include "engine/optim/optimizer.h"

namespace trainer::optim {

using MakeOptimizer = std::unique_ptr<Optimizer>(const config::TrainingConfig& options, const Trained& trained,
                                                 dist::Comm& comm);

/// AdamW (Loshchilov & Hutter 2019) as in torch; adamw_torch_fused does it in one pass over memory.
MakeOptimizer make_adamw;
/// torch.optim.SGD.
MakeOptimizer make_sgd;
/// torch.optim.RMSprop.
MakeOptimizer make_rmsprop;
/// torch.optim.Adagrad.
MakeOptimizer make_adagrad;
/// Lion (Chen et al. 2023): the sign of a running mean of gradients.
MakeOptimizer make_lion;
/// Adafactor (Shazeer & Stern 2018) with the Hugging Face Trainer's settings: the schedule sets the learning rate.
MakeOptimizer make_adafactor;
/// Muon (Jordan et al. 2024) as torch.optim.Muon for the matrices of hidden layers, AdamW for all else.
MakeOptimizer make_muon;
/// AdamW with 8-bit moments, as in bitsandbytes (Dettmers et al. 2022).
MakeOptimizer make_adamw_8bit;

struct Maker {
  config::OptimizerName optim;
  MakeOptimizer* make;
  bool by_element = true;  // updates_by_element()
};
inline constexpr Maker kMakers[] = {
    {config::OptimizerName::kAdamW, make_adamw},
    {config::OptimizerName::kAdamWFused, make_adamw},
    {config::OptimizerName::kSgd, make_sgd},
    {config::OptimizerName::kRmsprop, make_rmsprop},
    {config::OptimizerName::kAdagrad, make_adagrad},
    {config::OptimizerName::kLion, make_lion},
    {config::OptimizerName::kAdafactor, make_adafactor, false},
    {config::OptimizerName::kMuon, make_muon, false},
    {config::OptimizerName::kAdamW8Bit, make_adamw_8bit, false},
};

}  // namespace trainer::optim
