#include <ATen/TensorOperators.h>

#include "engine/config/plan/optim_args.h"
#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

class Sgd : public Optimizer {
 public:
  Sgd(const config::TrainingConfig& o, const Trained& trained) : Optimizer(o) {
    const config::OptimArgs args = config::read_optim_args(o);
    momentum_ = args.get("momentum", o.sgd_momentum);
    dampening_ = args.get("dampening", 0);
    nesterov_ = args.get("nesterov", 0) != 0;
    if (momentum_ != 0) velocity_ = add_state("momentum", trained);
  }

  const char* name() const override { return "sgd"; }

 protected:
  void update(Group& group, double learning_rate) override {
    const double fresh = steps() == 1 ? 1 : 1 - dampening_;  // the first gradient counts in full, as in torch
    for (size_t i = 0; i < group.values.size(); ++i) {
      at::Tensor g = group.grads[i];
      if (group.weight_decay != 0) g = g.add(group.values[i], group.weight_decay);
      if (momentum_ != 0) {
        const at::Tensor& v = velocity_[group.places[i]].mul_(momentum_).add_(g, fresh);
        g = nesterov_ ? g.add(v, momentum_) : v;
      }
      group.values[i].add_(g, -learning_rate);
    }
  }

 private:
  double momentum_ = 0, dampening_ = 0;
  bool nesterov_ = false;
  std::vector<at::Tensor> velocity_;
};

}  // namespace

std::unique_ptr<Optimizer> make_sgd(const config::TrainingConfig& options, const Trained& trained, dist::Comm&) {
  return std::make_unique<Sgd>(options, trained);
}

}  // namespace trainer::optim
