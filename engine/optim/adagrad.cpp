#include <ATen/TensorOperators.h>

#include "engine/config/plan/optim_args.h"
#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

class Adagrad : public Optimizer {
 public:
  Adagrad(const config::TrainingConfig& o, const Trained& trained) : Optimizer(o) {
    const config::OptimArgs args = config::read_optim_args(o);
    lr_decay_ = args.get("lr_decay", 0);
    epsilon_ = args.get("eps", 1e-10);
    sum_ = add_state("sum", trained);
  }

  const char* name() const override { return "adagrad"; }

 protected:
  void update(Group& group, double learning_rate) override {
    const double rate = learning_rate / (1 + static_cast<double>(steps() - 1) * lr_decay_);
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor& x = group.values[i];
      at::Tensor g = group.grads[i];
      if (group.weight_decay != 0) g = g.add(x, group.weight_decay);
      const at::Tensor& sum = sum_[group.places[i]].addcmul_(g, g, 1);
      x.addcdiv_(g, sum.sqrt().add_(epsilon_), -rate);
    }
  }

 private:
  double lr_decay_, epsilon_;
  std::vector<at::Tensor> sum_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adagrad(const config::TrainingConfig& options, const Trained& trained, dist::Comm&) {
  return std::make_unique<Adagrad>(options, trained);
}

}  // namespace trainer::optim
