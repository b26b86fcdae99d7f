#include "engine/parallel/activation_checkpoint.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/parallel/activation_offload.h"
#include "models/nn/prefix.h"
#include "models/nn/saved.h"

namespace trainer::parallel {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

using OffloadPtr = std::shared_ptr<ActivationOffload>;  // null: everything stays on the device

struct Region {
  nn::Module::Forward forward;
  nn::Pass pass;
  size_t inputs;  // defined inputs, plus tensors of the pass that require gradients
  // Per input of the block:
  std::vector<bool> defined;
  std::vector<nn::LayoutPtr> layouts;
  // The first input, if it is offloaded.
  OffloadPtr offload = nullptr;
  OffloadedActivationPtr first = nullptr;
  bool first_requires_grad = false;
  // Until backward: the inputs and the leaves. Autograd would save them in fewer bits if it is to (Note [Saved
  // activations]), and all that is computed from them again would be off.
  variable_list saved = {};
};

/// The tensors of `prefix`, in order.
std::vector<at::Tensor*> parts_of(nn::Prefix& prefix) {
  std::vector<at::Tensor*> parts;
  for (auto* list : {&prefix.keys, &prefix.values})
    for (at::Tensor& part : *list) parts.push_back(&part);
  return parts;
}

// Note [Recomputation]
// All inputs of the block, the pass's prefix, and the block's trained leaves are inputs of this one function: its
// backward reruns the block on detached inputs and returns the gradients of all of them. Dropout draws the same masks
// again from its counters.
struct Recompute : torch::autograd::Function<Recompute> {
  /// Appends the layouts of the outputs to `layouts`.
  static variable_list forward(AutogradContext* ctx, at::TensorList inputs_and_leaves, const Region& region,
                               std::vector<nn::LayoutPtr>* layouts) {
    const at::NoGradGuard no_grad;
    Region kept = region;
    kept.saved = inputs_and_leaves.vec();
    if (region.first) kept.saved.front() = at::Tensor();
    nn::keep(ctx, std::move(kept));
    variable_list outputs;
    for (nn::Rows& out : run(region, {inputs_and_leaves.begin(), inputs_and_leaves.end()})) {
      outputs.push_back(std::move(out.x));
      layouts->push_back(std::move(out.layout));
    }
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    auto region = nn::take_kept<Region>(ctx);
    variable_list& saved = region.saved;
    if (region.first)
      saved.front() = region.offload->restore(*region.first).set_requires_grad(region.first_requires_grad);
    std::vector<at::Tensor> given, wanted;
    for (size_t i = 0; i < saved.size(); ++i) {
      const bool leaf = i >= region.inputs;
      given.push_back(leaf ? saved[i] : saved[i].detach().set_requires_grad(saved[i].requires_grad()));
      if (given.back().requires_grad()) wanted.push_back(given.back());
    }
    const at::AutoGradMode with_grad(true);
    const auto outputs = run(region, given);
    std::vector<at::Tensor> roots, root_grads;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i].x.defined() && outputs[i].x.requires_grad())
        roots.push_back(outputs[i].x), root_grads.push_back(grads[i]);
    const auto found = torch::autograd::grad(roots, wanted, root_grads, /*retain_graph=*/false, /*create_graph=*/false,
                                             /*allow_unused=*/true);
    variable_list all;
    size_t next = 0;
    for (const at::Tensor& tensor : given) all.push_back(tensor.requires_grad() ? found[next++] : at::Tensor());
    all.resize(all.size() + 2);  // no gradients for the region and the layouts
    return all;
  }

  /// Runs the block on `tensors`, with the undefined inputs put back in place.
  static nn::RowsList run(const Region& region, const std::vector<at::Tensor>& tensors) {
    nn::RowsList inputs;
    size_t next = 0;
    for (size_t i = 0; i < region.defined.size(); ++i)
      inputs.push_back({region.defined[i] ? tensors[next++] : at::Tensor(), region.layouts[i]});
    nn::Pass pass = region.pass;
    if (pass.prefix) {
      auto prefix = std::make_shared<nn::Prefix>(*pass.prefix);
      for (at::Tensor* part : parts_of(*prefix)) *part = tensors[next++];
      pass.prefix = std::move(prefix);
    }
    return region.forward(inputs, pass);
  }
};

nn::RowsList recompute(nn::Module& block, const nn::RowsList& inputs, const nn::Pass& pass,
                       const nn::Module::Forward& next, const OffloadPtr& offload) {
  if (!at::GradMode::is_enabled()) return next(inputs, pass);
  Region region{next, pass, 0, {}, {}};
  if (const at::Tensor& x = inputs.front().x; offload && x.defined() && ActivationOffload::applies_to(x)) {
    region.offload = offload;
    region.first = offload->save(x);
    region.first_requires_grad = x.requires_grad();
  }
  std::vector<at::Tensor> all;
  for (const nn::Rows& input : inputs) {
    region.defined.push_back(input.x.defined());
    region.layouts.push_back(input.layout);
    if (input.x.defined()) all.push_back(input.x), ++region.inputs;
  }
  if (pass.prefix) {
    nn::Prefix prefix = *pass.prefix;
    for (const at::Tensor* part : parts_of(prefix)) all.push_back(*part), ++region.inputs;
  }
  for (const nn::ParameterPtr& p : block.all_parameters())
    if (p->trainable) all.push_back(p->value);
  std::vector<nn::LayoutPtr> layouts;
  const variable_list computed = Recompute::apply(at::TensorList(all), region, &layouts);
  nn::RowsList outputs;
  for (size_t i = 0; i < computed.size(); ++i) outputs.push_back({computed[i], layouts[i]});
  return outputs;
}

}  // namespace

void checkpoint_activations(models::Model& model, bool offload) {
  const OffloadPtr offloaded = offload ? std::make_shared<ActivationOffload>() : nullptr;
  for (nn::Module* block : model.blocks())
    block->wrap([block, offloaded](const nn::RowsList& x, const nn::Pass& pass, const nn::Module::Forward& next) {
      return recompute(*block, x, pass, next, offloaded);
    });
}

}  // namespace trainer::parallel
