#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const config::TrainingConfig& o, const Trained& trained)
      : Optimizer(o),
        beta1_(o.adam_beta1),
        beta2_(o.adam_beta2),
        epsilon_(o.adam_epsilon),
        fused_(o.optim == config::OptimizerName::kAdamWFused),
        exp_avg_(add_state("exp_avg", trained)),
        exp_avg_sq_(add_state("exp_avg_sq", trained)) {}

  const char* name() const override { return "adamw"; }

 protected:
  void update(Group& group, double learning_rate) override {
    std::vector<at::Tensor> m, v;
    for (const size_t place : group.places) m.push_back(exp_avg_[place]), v.push_back(exp_avg_sq_[place]);
    if (fused_) {
      const auto device = group.values.front().options().dtype(at::kFloat);
      std::vector<at::Tensor> step(group.values.size(), at::full({}, static_cast<double>(steps()), device)), no_max;
      at::_fused_adamw_(group.values, group.grads, m, v, no_max, step, learning_rate, beta1_, beta2_,
                        group.weight_decay, epsilon_,
                        /*amsgrad=*/false, /*maximize=*/false);
      return;
    }
    const double correction1 = 1 - std::pow(beta1_, steps()), correction2 = 1 - std::pow(beta2_, steps());
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor &x = group.values[i], &g = group.grads[i];
      x.mul_(1 - learning_rate * group.weight_decay);
      m[i].lerp_(g, 1 - beta1_);
      v[i].mul_(beta2_).addcmul_(g, g, 1 - beta2_);
      x.addcdiv_(m[i], v[i].sqrt().div_(std::sqrt(correction2)).add_(epsilon_), -learning_rate / correction1);
    }
  }

 private:
  double beta1_, beta2_, epsilon_;
  bool fused_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const config::TrainingConfig& options, const Trained& trained) {
  return std::make_unique<AdamW>(options, trained);
}

}  // namespace trainer::optim
