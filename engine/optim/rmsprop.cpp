#include <ATen/TensorOperators.h>

#include "engine/config/plan/optim_args.h"
#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

class RmsProp : public Optimizer {
 public:
  RmsProp(const config::TrainingConfig& o, const Trained& trained)
      : Optimizer(o), square_avg_(add_state("square_avg", trained)) {
    const config::OptimArgs args = config::read_optim_args(o);
    alpha_ = args.get("alpha", 0.99);
    epsilon_ = args.get("eps", 1e-8);
    momentum_ = args.get("momentum", 0);
    if (args.get("centered", 0) != 0) grad_avg_ = add_state("grad_avg", trained);
    if (momentum_ != 0) velocity_ = add_state("momentum", trained);
  }

  const char* name() const override { return "rmsprop"; }

 protected:
  void update(Group& group, double learning_rate) override {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor& x = group.values[i];
      const size_t place = group.places[i];
      at::Tensor g = group.grads[i];
      if (group.weight_decay != 0) g = g.add(x, group.weight_decay);
      const at::Tensor spread = spread_of(g, place);
      if (momentum_ == 0)
        x.addcdiv_(g, spread, -learning_rate);
      else
        x.add_(velocity_[place].mul_(momentum_).addcdiv_(g, spread), -learning_rate);
    }
  }

 private:
  /// The root of the (centered) running mean of squared gradients.
  at::Tensor spread_of(const at::Tensor& g, size_t place) {
    const at::Tensor& square = square_avg_[place].mul_(alpha_).addcmul_(g, g, 1 - alpha_);
    if (grad_avg_.empty()) return square.sqrt().add_(epsilon_);
    const at::Tensor& mean = grad_avg_[place].lerp_(g, 1 - alpha_);
    return square.addcmul(mean, mean, -1).sqrt_().add_(epsilon_);
  }

  double alpha_, epsilon_, momentum_;
  std::vector<at::Tensor> square_avg_, grad_avg_, velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_rmsprop(const config::TrainingConfig& options, const Trained& trained, dist::Comm&) {
  return std::make_unique<RmsProp>(options, trained);
}

}  // namespace trainer::optim
