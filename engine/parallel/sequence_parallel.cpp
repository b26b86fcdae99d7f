#include "engine/parallel/sequence_parallel.h"

#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/phase.h"
#include "engine/parallel/freed_storage.h"
#include "engine/parallel/mesh_group.h"
#include "models/nn/saved.h"
#include "models/nn/split_rows.h"

namespace trainer::parallel {
namespace {

using TensorGroupPtr = nn::SplitRows::TensorGroupPtr;

/// A region's gathered input, to be gathered again in backward. The graph holds its storage while a layer needs the
/// values; a strong reference here would keep it until the graph is destroyed.
struct Freed {
  nn::LayoutPtr rows;
  c10::weak_intrusive_ptr<c10::StorageImpl> all;
};

/// The identity, applied to a region's output: its backward runs just before the region's own.
struct GatherAgain : torch::autograd::Function<GatherAgain> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& out, const at::Tensor& mine,
                            const Freed& freed) {
    ctx->save_for_backward({mine});
    nn::keep(ctx, freed);
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const auto& [rows, all] = nn::kept<Freed>(ctx);
    const at::Tensor again = rows->shared->gather(ctx->get_saved_variables()[0]);
    if (const auto storage = all.lock()) move_storage(again, *storage);
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

/// Whether the autograd graph saves the tensor for backward.
bool kept_by_others(const at::Tensor& tensor) {
  return tensor.use_count() > 1 || tensor.storage().use_count() > 1;
}

void share_rows_of(nn::Module& stack, bool target, const TensorGroupPtr& group) {
  stack.wrap([&stack, target, group](const nn::Tensors& in, const nn::Pass& given, const nn::Module::Forward& next) {
    if (given.cache != nullptr) return next(in, given);
    const dist::Phase phase(stack.path());
    nn::Pass pass = given;
    pass.source = nn::slice_of(given.source, group);
    pass.target = given.target == given.source ? pass.source : nn::slice_of(given.target, group);
    pass.stream = target ? pass.target : pass.source;
    nn::Tensors out = next(in, pass);
    if (out[0].defined()) out[0] = nn::SplitRows::all_replicated(pass.stream, out[0]);  // undefined between two stages
    return out;
  });
}

}  // namespace

nn::Tensors gather_region_input(nn::Tensors x, const nn::Pass& given, const nn::Module::Forward& next) {
  nn::Pass pass = given;
  pass.source = given.source->whole;
  pass.target = given.target->whole;
  const at::Tensor mine = x[0].to(given.compute);
  x[0] = nn::SplitRows::all(given.stream, mine);
  nn::Tensors out = next(x, pass);
  if (!at::GradMode::is_enabled() || !out[0].requires_grad()) return out;
  const at::Tensor all = std::move(x[0]);
  if (!kept_by_others(all)) return out;
  const Freed freed{given.stream, all.storage().getWeakStorageImpl()};
  free_storage(all);
  out[0] = GatherAgain::apply(out[0], mine.detach(), freed);
  return out;
}

void share_rows(models::Model& model, const dist::MeshPtr& mesh) {
  if (mesh->tensor().size() == 1) return;
  const TensorGroupPtr group = group_along(mesh, &dist::Mesh::tensor);
  const auto stacks = model.tensor_plan().stacks;
  model.visit([&](nn::Module& module) {
    for (const auto& [name, target] : stacks) {
      if (module.path() != name) continue;
      share_rows_of(module, target, group);
      // Replicated weights see only this rank's rows, so their gradients are partial.
      for (const nn::ParameterPtr& p : module.all_parameters())
        if (p->part.whole()) p->partial_grad = true;
    }
  });
}

}  // namespace trainer::parallel
