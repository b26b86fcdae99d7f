// All optimizers, over the trained tensors of a model. To add one: a file, a line here, and one in optimizer.cpp.
#pragma once

#include <memory>

#include "engine/optim/optimizer.h"

namespace trainer::optim {

/// AdamW (Loshchilov & Hutter 2019) as in torch; adamw_torch_fused does it in one pass over memory.
std::unique_ptr<Optimizer> make_adamw(const config::TrainingConfig& options, const Trained& trained);
/// torch.optim.SGD.
std::unique_ptr<Optimizer> make_sgd(const config::TrainingConfig& options, const Trained& trained);
/// torch.optim.RMSprop.
std::unique_ptr<Optimizer> make_rmsprop(const config::TrainingConfig& options, const Trained& trained);
/// torch.optim.Adagrad.
std::unique_ptr<Optimizer> make_adagrad(const config::TrainingConfig& options, const Trained& trained);
/// Lion (Chen et al. 2023): the sign of a running mean of gradients.
std::unique_ptr<Optimizer> make_lion(const config::TrainingConfig& options, const Trained& trained);
/// Adafactor (Shazeer & Stern 2018) with the Hugging Face Trainer's settings: the schedule sets the learning rate.
std::unique_ptr<Optimizer> make_adafactor(const config::TrainingConfig& options, const Trained& trained,
                                          dist::Comm& comm);

}  // namespace trainer::optim
