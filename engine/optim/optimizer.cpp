#include "engine/optim/optimizer.h"

#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::optim {
namespace {

/// AdamW (Loshchilov & Hutter 2019) as torch computes it; `fused` in one pass over memory.
class AdamW : public Optimizer {
 public:
  AdamW(const config::TrainingConfig& o, const std::vector<parallel::LogicalTensor>& trained, bool fused)
      : Optimizer(o.weight_decay), beta1_(o.adam_beta1), beta2_(o.adam_beta2), epsilon_(o.adam_epsilon), fused_(fused) {
    for (const auto& tensor : trained) {
      names_.push_back(tensor.name);
      exp_avg_.push_back(at::zeros_like(tensor.value));
      exp_avg_sq_.push_back(at::zeros_like(tensor.value));
    }
  }

  const char* name() const override { return "adamw"; }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> all;
    for (size_t i = 0; i < names_.size(); ++i) {
      all.push_back({"exp_avg", names_[i], exp_avg_[i]});
      all.push_back({"exp_avg_sq", names_[i], exp_avg_sq_[i]});
    }
    return all;
  }

 protected:
  void update(Group& group, double learning_rate) override {
    std::vector<at::Tensor> m, v;
    for (const size_t place : group.places) m.push_back(exp_avg_[place]), v.push_back(exp_avg_sq_[place]);
    if (fused_) {
      std::vector<at::Tensor> step(group.values.size(), at::full({}, static_cast<double>(steps()), at::kFloat)), no_max;
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
  std::vector<std::string> names_;
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;
};

class Sgd : public Optimizer {
 public:
  Sgd(const config::TrainingConfig& o, const std::vector<parallel::LogicalTensor>& trained)
      : Optimizer(o.weight_decay), momentum_(o.sgd_momentum) {
    if (momentum_ == 0) return;
    for (const auto& tensor : trained) {
      names_.push_back(tensor.name);
      velocity_.push_back(at::zeros_like(tensor.value));
    }
  }

  const char* name() const override { return "sgd"; }

  std::vector<StateTensor> state() override {
    std::vector<StateTensor> all;
    for (size_t i = 0; i < names_.size(); ++i) all.push_back({"momentum", names_[i], velocity_[i]});
    return all;
  }

 protected:
  void update(Group& group, double learning_rate) override {
    for (size_t i = 0; i < group.values.size(); ++i) {
      at::Tensor g = group.grads[i];
      if (group.weight_decay != 0) g = g.add(group.values[i], group.weight_decay);
      if (momentum_ != 0) g = velocity_[group.places[i]].mul_(momentum_).add_(g);
      group.values[i].add_(g, -learning_rate);
    }
  }

 private:
  double momentum_;
  std::vector<std::string> names_;
  std::vector<at::Tensor> velocity_;
};

std::vector<parallel::LogicalTensor> trained_among(const std::vector<parallel::LogicalTensor>& tensors) {
  std::vector<parallel::LogicalTensor> trained;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(trained), [](const auto& t) { return t.trainable; });
  return trained;
}

}  // namespace

void Optimizer::step(const std::vector<parallel::LogicalTensor>& tensors, double learning_rate) {
  const at::NoGradGuard no_grad;
  ++steps_;
  Group with_decay{{}, {}, weight_decay_, {}}, without{};
  const auto trained = trained_among(tensors);
  for (size_t i = 0; i < trained.size(); ++i) {
    if (trained[i].value.numel() == 0) continue;  // another rank's
    Group& group = decays(trained[i].name) ? with_decay : without;
    group.values.push_back(trained[i].value);
    group.grads.push_back(trained[i].grad);
    group.places.push_back(i);
  }
  for (Group* group : {&with_decay, &without})
    if (!group->values.empty()) update(*group, learning_rate);
}

std::unique_ptr<Optimizer> make_optimizer(const config::TrainingConfig& options,
                                          const std::vector<parallel::LogicalTensor>& tensors) {
  const auto trained = trained_among(tensors);
  switch (options.optim) {
    case config::OptimizerName::kSgd:
      return std::make_unique<Sgd>(options, trained);
    case config::OptimizerName::kAdamW:
      return std::make_unique<AdamW>(options, trained, false);
    case config::OptimizerName::kAdamWFused:
      return std::make_unique<AdamW>(options, trained, true);
  }
  return nullptr;
}

bool decays(const std::string& name) {
  std::string lower = name;
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  for (const char* part : {"bias", "layernorm", "layer_norm", "rmsnorm", "_norm.", ".ln_"})
    if (lower.find(part) != std::string::npos) return false;
  return ("." + lower + ".").find(".norm.") == std::string::npos;
}

}  // namespace trainer::optim
