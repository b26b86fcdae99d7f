#include "engine/dist/after_gradient.h"

#include <memory>
#include <utility>

#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

namespace trainer::dist {
namespace {

class GradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientHook(std::function<void()> then) : then_(std::move(then)) {}
  void operator()(const torch::autograd::Variable&) override { then_(); }

 private:
  std::function<void()> then_;
};

}  // namespace

void after_gradient(const at::Tensor& leaf, std::function<void()> then) {
  torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::make_unique<GradientHook>(std::move(then)));
}

}  // namespace trainer::dist
