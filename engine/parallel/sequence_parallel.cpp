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

/// All rows, as a region works on them, of which `slice` is this rank's slice.
nn::LayoutPtr rows_in_region(const nn::LayoutPtr& slice) {
  auto rows = std::make_shared<nn::Layout>(*slice->whole);  // a copy, because the slice refers to the original
  rows->sequence_slice = slice;
  return rows;
}

void share_rows_of(nn::Module& stack, const TensorGroupPtr& group) {
  stack.wrap([&stack, group](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward& next) {
    if (pass.cache != nullptr) return next(in, pass);
    const dist::Phase phase(stack.path());
    const nn::LayoutPtr slice = nn::slice_of(in[0].layout, group);
    nn::RowsList x = in;
    x[0].layout = rows_in_region(slice);
    nn::RowsList out = next(x, pass);
    if (out[0].x.defined()) out[0].x = nn::SplitRows::all_replicated(slice, out[0].x);  // undefined between two stages
    out[0].layout = in[0].layout;
    return out;
  });
}

}  // namespace

bool is_sequence_slice(const nn::Rows& rows) {
  return rows.layout && rows.layout->is_sequence_slice;
}

nn::RowsList gather_region_input(nn::RowsList x, const nn::Pass& pass, const nn::Module::Forward& next) {
  const nn::Rows mine = x[0].to(pass.compute);
  x[0] = {nn::SplitRows::all(mine.layout, mine.x), rows_in_region(mine.layout)};
  nn::RowsList out = next(x, pass);
  if (!at::GradMode::is_enabled() || !out[0].x.requires_grad()) return out;
  const at::Tensor all = std::move(x[0].x);
  if (!kept_by_others(all)) return out;
  const Freed freed{mine.layout, all.storage().getWeakStorageImpl()};
  free_storage(all);
  out[0].x = GatherAgain::apply(out[0].x, mine.x.detach(), freed);
  return out;
}

void share_rows(models::Model& model, const dist::MeshPtr& mesh) {
  if (mesh->tensor().size() == 1) return;
  const TensorGroupPtr group = group_along(mesh, &dist::Mesh::tensor);
  const auto stacks = model.tensor_plan().stacks;
  model.visit([&](nn::Module& module) {
    for (const std::string& name : stacks) {
      if (module.path() != name) continue;
      share_rows_of(module, group);
      // Replicated weights see only this rank's rows, so their gradients are partial.
      for (const nn::ParameterPtr& p : module.all_parameters())
        if (p->part.whole()) p->partial_grad = true;
    }
  });
}

}  // namespace trainer::parallel
