#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>

#include "engine/optim/adamw.h"
#include "engine/optim/optimizers.h"

namespace trainer::optim {

AdamWStep::AdamWStep(const config::TrainingConfig& options, int64_t step)
    : beta1_(options.adam_beta1),
      beta2_(options.adam_beta2),
      epsilon_(options.adam_epsilon),
      correction1_(1 - std::pow(beta1_, step)),
      correction2_(1 - std::pow(beta2_, step)) {}

void AdamWStep::average(const at::Tensor& m, const at::Tensor& v, const at::Tensor& g) const {
  m.lerp_(g, 1 - beta1_);
  v.mul_(beta2_).addcmul_(g, g, 1 - beta2_);
}

void AdamWStep::move(const at::Tensor& x, const at::Tensor& m, const at::Tensor& v, double learning_rate,
                     double weight_decay) const {
  x.mul_(1 - learning_rate * weight_decay);
  x.addcdiv_(m, v.sqrt().div_(std::sqrt(correction2_)).add_(epsilon_), -learning_rate / correction1_);
}

namespace {

class AdamW : public Optimizer {
 public:
  AdamW(const config::TrainingConfig& o, const Trained& trained)
      : Optimizer(o),
        options_(o),
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
      at::_fused_adamw_(group.values, group.grads, m, v, no_max, step, learning_rate, options_.adam_beta1,
                        options_.adam_beta2, group.weight_decay, options_.adam_epsilon,
                        /*amsgrad=*/false, /*maximize=*/false);
      return;
    }
    const AdamWStep step(options_, steps());
    for (size_t i = 0; i < group.values.size(); ++i) {
      step.average(m[i], v[i], group.grads[i]);
      step.move(group.values[i], m[i], v[i], learning_rate, group.weight_decay);
    }
  }

 private:
  config::TrainingConfig options_;
  bool fused_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const config::TrainingConfig& options, const Trained& trained, dist::Comm&) {
  return std::make_unique<AdamW>(options, trained);
}

}  // namespace trainer::optim
