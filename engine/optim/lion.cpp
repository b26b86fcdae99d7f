#include <ATen/TensorOperators.h>

#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

class Lion : public Optimizer {
 public:
  Lion(const config::TrainingConfig& o, const Trained& trained)
      : Optimizer(o), beta1_(o.adam_beta1), beta2_(o.adam_beta2), exp_avg_(add_state("exp_avg", trained)) {}

  const char* name() const override { return "lion"; }

 protected:
  void update(Group& group, double learning_rate) override {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor &x = group.values[i], &g = group.grads[i], &m = exp_avg_[group.places[i]];
      x.mul_(1 - learning_rate * group.weight_decay);
      x.add_(m.mul(beta1_).add_(g, 1 - beta1_).sign_(), -learning_rate);
      m.mul_(beta2_).add_(g, 1 - beta2_);
    }
  }

 private:
  double beta1_, beta2_;
  std::vector<at::Tensor> exp_avg_;
};

}  // namespace

std::unique_ptr<Optimizer> make_lion(const config::TrainingConfig& options, const Trained& trained, dist::Comm&) {
  return std::make_unique<Lion>(options, trained);
}

}  // namespace trainer::optim
