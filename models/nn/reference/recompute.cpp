#include "models/nn/reference/recompute.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/saved.h"

namespace trainer::nn::reference {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Recompute : torch::autograd::Function<Recompute> {
  struct State {
    Composition f;
    std::vector<bool> learns;  // requires_grad of each input
    const char* name;
  };
  /// A scope of libtorch's observers; nothing happens without one.
  struct Scope : at::RecordFunction {
    explicit Scope(const char* name) : at::RecordFunction(at::RecordScope::USER_SCOPE) {
      if (name != nullptr) before(name);
    }
  };

  static at::Tensor forward(AutogradContext* ctx, at::TensorList inputs, State state) {
    const Scope scope(state.name);
    at::Tensor out = state.f(inputs.vec());
    ctx->save_for_backward(inputs.vec());
    keep(ctx, std::move(state));
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const State& state = kept<State>(ctx);
    const Scope scope(state.name);
    variable_list inputs, learned;
    for (const at::Tensor& saved : ctx->get_saved_variables()) {
      const bool learns = state.learns[inputs.size()];
      inputs.push_back(saved.detach().set_requires_grad(learns));
      if (learns) learned.push_back(inputs.back());
    }
    variable_list found;
    {
      const at::AutoGradMode with_graph(true);
      found = torch::autograd::grad({state.f(inputs)}, learned, grads);
    }
    variable_list all(inputs.size() + 1);  // plus one for the state
    for (size_t i = 0, next = 0; i < inputs.size(); ++i)
      if (state.learns[i]) all[i] = found[next++];
    return all;
  }
};

}  // namespace

at::Tensor recompute(const std::vector<at::Tensor>& inputs, const Composition& f, const char* name) {
  std::vector<bool> learns;
  for (const at::Tensor& input : inputs) learns.push_back(input.requires_grad());
  return Recompute::apply(at::TensorList(inputs), Recompute::State{f, std::move(learns), name});
}

}  // namespace trainer::nn::reference
