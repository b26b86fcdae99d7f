#include "engine/parallel/tensor_parallel.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/dist/dry_memory.h"
#include "engine/dist/phase.h"
#include "engine/parallel/mesh_group.h"
#include "engine/parallel/sequence_parallel.h"
#include "models/nn/device/layout_tensors.h"
#include "models/nn/linear.h"
#include "models/nn/saved.h"
#include "models/nn/split_rows.h"

namespace trainer::parallel {
namespace {

using models::TensorPlan;
using TensorGroupPtr = std::shared_ptr<const nn::TensorGroup>;

/// The identity in forward, where a replicated tensor enters a region; all-reduces the gradient in backward.
struct CopyToRegion : torch::autograd::Function<CopyToRegion> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const TensorGroupPtr& group) {
    nn::keep(ctx, group);
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor sum = grads[0].clone(at::MemoryFormat::Contiguous);
    nn::kept<TensorGroupPtr>(ctx)->sum(sum);
    return {sum, at::Tensor()};
  }
};

void copy_to_region(nn::Module& module, const std::vector<size_t>& inputs, const TensorGroupPtr& group) {
  module.wrap(
      [&module, inputs, group](const nn::RowsList& given, const nn::Pass& pass, const nn::Module::Forward& next) {
        const dist::Phase phase(module.path());
        nn::RowsList x = given;
        const bool gathers = is_sequence_slice(x[0]);
        for (const size_t i : inputs)
          if (x.at(i).x.defined() && x[i].x.requires_grad() && (i > 0 || !gathers))
            x[i].x = CopyToRegion::apply(x[i].x, group);
        return gathers ? gather_region_input(std::move(x), pass, next) : next(x, pass);
      });
}

/// Sums a layer's partial outputs over ranks: to this rank's slice of the rows under sequence parallelism, else to all
/// rows. All rows in place, because no layer needs its own output for backward. The gradient of the sum is the gradient
/// of each partial output.
nn::Rows added_up(const nn::Rows& partial, const nn::TensorGroup& group) {
  if (partial.layout && partial.layout->sequence_slice) {
    const nn::LayoutPtr& slice = partial.layout->sequence_slice;
    return {nn::SplitRows::sum(slice, partial.x), slice};
  }
  group.sum(partial.x.detach());
  return partial;
}

void reduce_from_region(nn::Linear& layer, const TensorGroupPtr& group) {
  layer.leave_bias_out();
  layer.wrap([&layer, group](const nn::RowsList& x, const nn::Pass& pass, const nn::Module::Forward& next) {
    const dist::Phase phase(layer.path());
    nn::Rows y = added_up(next(x, pass)[0], *group);
    if (const nn::ParameterPtr bias = layer.bias()) y.x = y.x + bias->value.to(pass.compute);
    return nn::RowsList{y};
  });
}

/// An embedding of the tokens `mine`; all other tokens give 0 on this rank.
void look_up(nn::Embedding& embedding, nn::Range mine, const TensorGroupPtr& group) {
  embedding.wrap(
      [&embedding, mine, group](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward& next) {
        const dist::Phase phase(embedding.path());
        const at::Tensor ids = nn::device::sent(in[0].x, embedding.weight()->value.device());
        const at::Tensor here = ids.ge(mine.begin).mul(ids.lt(mine.end));
        const at::Tensor partial = next({in[0].with(ids.sub(mine.begin).mul(here))}, pass)[0].x.mul(here.unsqueeze(1));
        return nn::RowsList{added_up(in[0].with(partial), *group)};
      });
}

bool named(const nn::Module& module, const std::string& name) {
  const std::string& path = module.path();
  return path == name || (path.ends_with(name) && path[path.size() - name.size() - 1] == '.');
}

/// Calls f for every module named `name`.
template <class T, class F>
void for_each(models::Model& model, const std::string& name, const F& f) {
  std::vector<T*> found;
  model.visit([&](nn::Module& module) {
    if (auto* const wanted = dynamic_cast<T*>(&module); wanted != nullptr && named(module, name))
      found.push_back(wanted);
  });
  for (T* const module : found) f(*module);
}

/// The rows of `size` that a rank has: if they don't divide evenly, the first ranks have one more.
nn::Range share_of(int64_t size, int64_t rank, int64_t ranks) {
  const auto begin = [&](int64_t r) { return (size * r + ranks - 1) / ranks; };
  return {begin(rank), begin(rank + 1)};
}

class Splitter {
 public:
  Splitter(models::Model& model, const dist::MeshPtr& mesh)
      : model_(model),
        rank_(mesh->tensor().rank()),
        ranks_(mesh->tensor().size()),
        group_(group_along(mesh, &dist::Mesh::tensor)) {}

  void split(const TensorPlan& plan) {
    for (const TensorPlan::Columns& columns : plan.columns)
      for_each<nn::Module>(model_, columns.layer, [&](nn::Module& layer) { split_outputs(layer, columns.fused); });
    for (const std::string& name : plan.rows)
      for_each<nn::Linear>(model_, name, [&](nn::Linear& layer) {
        split_inputs(layer);
        reduce_from_region(layer, group_);
      });
    for (const TensorPlan::Region& region : plan.regions)
      for_each<nn::Module>(model_, region.module, [&](nn::Module& module) {
        copy_to_region(module, region.inputs, group_);
        note_shares(module);
      });
    for (const std::string& name : plan.embeddings)
      for_each<nn::Embedding>(model_, name, [&](nn::Embedding& embedding) {
        split_inputs(embedding);
        look_up(embedding, embedding.weight()->part.ranges.front(), group_);
        note_shares(embedding);
      });
    if (!plan.head.empty()) for_each<nn::Linear>(model_, plan.head, [&](nn::Linear& head) { split_head(head); });
  }

 private:
  void cut(nn::Parameter& parameter, int64_t dim, int64_t fused) const {
    if (dim < 0 || !parameter.part.whole()) return;  // a tied weight is split once
    nn::Part part{dim, {}};
    const int64_t size = parameter.shape[static_cast<size_t>(dim)] / fused;
    const nn::Range range = share_of(size, rank_, ranks_);
    for (int64_t i = 0; i < fused; ++i) part.ranges.push_back({i * size + range.begin, i * size + range.end});
    parameter.keep(part);
  }

  void split_outputs(nn::Module& layer, int64_t fused) const {
    for (const auto& [name, parameter] : layer.parameters()) cut(*parameter, parameter->axes.out, fused);
  }
  void split_inputs(nn::Module& layer) const {
    for (const auto& [name, parameter] : layer.parameters()) cut(*parameter, parameter->axes.in, 1);
  }

  void split_head(nn::Linear& head) const {
    split_outputs(head, 1);
    copy_to_region(head, {0}, group_);
    note_shares(head);
    const nn::ParameterPtr weight = head.weight();
    model_.partition_vocabulary({group_, weight->part.ranges.front(), weight->whole_shape()[0]});
  }

  /// Marks the gradients of a region's unsplit weights as partial, except the bias that a layer adds after the sum.
  static void note_shares(nn::Module& region) {
    region.visit([](nn::Module& module) {
      const auto* const linear = dynamic_cast<const nn::Linear*>(&module);
      const nn::ParameterPtr after_sum = linear != nullptr && !linear->adds_bias() ? linear->bias() : nullptr;
      for (const auto& [name, parameter] : module.parameters())
        if (parameter->part.whole() && parameter != after_sum) parameter->partial_grad = true;
    });
  }

  models::Model& model_;
  int64_t rank_, ranks_;
  TensorGroupPtr group_;
};

}  // namespace

std::vector<nn::Parameter> slices_of_inputs(models::Model& model, int64_t ranks) {
  std::vector<nn::Parameter> slices;
  if (ranks == 1) return slices;
  for (const std::string& name : model.tensor_plan().rows)
    for_each<nn::Linear>(model, name, [&](nn::Linear& layer) {
      for (int64_t rank = 0; rank < ranks; ++rank) {
        slices.push_back(*layer.weight());
        slices.back().keep({layer.weight()->axes.in, {share_of(layer.in(), rank, ranks)}});
      }
    });
  return slices;
}

void check_layers_split(models::Model& model, int64_t ranks) {
  if (ranks == 1) return;
  const TensorPlan plan = model.tensor_plan();
  const char* const key = "parallelism_config.parallelism_config_tp_size";
  if (plan.regions.empty())
    throw ConfigError("{} is {}, but {} does not support tensor parallelism; the LLaMA family, GPT-2 and T5 do.", key,
                      ranks, model.class_name());
  std::string problems;
  for (const auto& [name, value] : plan.divided)
    if (value % ranks != 0)
      problems += fmt::format("\n  {} is {}, which {} ranks cannot split evenly", name, value, ranks);
  if (model.vocabulary() < ranks)
    problems += fmt::format("\n  vocab_size is {}: fewer tokens than ranks", model.vocabulary());
  if (!problems.empty())
    throw ConfigError("{} is {}, but in {}:{}\n  Choose a size that divides them.", key, ranks, model.class_name(),
                      problems);
}

void split_layers(models::Model& model, const dist::MeshPtr& mesh) {
  if (mesh->tensor().size() == 1) return;
  Splitter(model, mesh).split(model.tensor_plan());
}

void sum_partial_grads(const std::vector<at::Tensor>& shares, dist::Comm& group) {
  if (shares.empty() || group.size() == 1) return;
  const at::NoGradGuard no_grad;
  const dist::CommunicationMemory communication;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& share : shares) flat.push_back(share.view(-1));
  const at::Tensor all = at::cat(flat);
  if (all.numel() > 0) group.all_reduce(all);
  int64_t at = 0;
  for (const at::Tensor& share : flat) {
    share.copy_(all.narrow(0, at, share.numel()));
    at += share.numel();
  }
}

}  // namespace trainer::parallel
