#include "engine/parallel/tensor_parallel.h"

#include <algorithm>
#include <map>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/dist/doing.h"
#include "engine/dist/dry_memory.h"
#include "engine/parallel/mesh_peers.h"
#include "engine/parallel/sequence_parallel.h"
#include "models/nn/linear.h"
#include "models/nn/saved.h"
#include "models/nn/shared_rows.h"

namespace trainer::parallel {
namespace {

using models::TensorPlan;
using PeersPtr = std::shared_ptr<const nn::Peers>;

/// The identity in forward, where a replicated tensor enters a region; all-reduces the gradient in backward.
struct Enter : torch::autograd::Function<Enter> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const PeersPtr& peers) {
    nn::keep(ctx, peers);
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const at::Tensor sum = grads[0].clone(at::MemoryFormat::Contiguous);
    nn::kept<PeersPtr>(ctx)->sum(sum);
    return {sum, at::Tensor()};
  }
};

void enter(nn::Module& module, const std::vector<size_t>& inputs, const PeersPtr& peers) {
  module.wrap(
      [&module, inputs, peers](const nn::Tensors& given, const nn::Pass& pass, const nn::Module::Forward& next) {
        const dist::Doing doing(module.path());
        nn::Tensors x = given;
        for (const size_t i : inputs)
          if (x.at(i).defined() && x[i].requires_grad() && (i > 0 || !pass.stream)) x[i] = Enter::apply(x[i], peers);
        return pass.stream ? enter_with_own_rows(std::move(x), pass, next) : next(x, pass);
      });
}

/// All-reduces a layer's partial output. In place, because no layer needs its own output for backward. The gradient of
/// the sum is the gradient of each partial output.
at::Tensor added_up(const at::Tensor& share, const nn::Peers& peers) {
  peers.sum(share.detach());
  return share;
}

void leave(nn::Linear& layer, const PeersPtr& peers) {
  layer.leave_bias_out();
  layer.wrap([&layer, peers](const nn::Tensors& x, const nn::Pass& pass, const nn::Module::Forward& next) {
    const dist::Doing doing(layer.path());
    const at::Tensor share = next(x, pass)[0];
    const at::Tensor y = pass.stream ? nn::SharedRows::sum(pass.stream, share) : added_up(share, *peers);
    const nn::ParameterPtr bias = layer.bias();
    return nn::Tensors{bias ? y + bias->value.to(pass.compute) : y};
  });
}

/// An embedding of the tokens `mine`; all other tokens give 0 on this rank.
void look_up(nn::Embedding& embedding, nn::Range mine, const PeersPtr& peers) {
  embedding.wrap(
      [&embedding, mine, peers](const nn::Tensors& in, const nn::Pass& pass, const nn::Module::Forward& next) {
        const dist::Doing doing(embedding.path());
        const at::Tensor ids = in[0].to(embedding.weight()->value.device());
        const at::Tensor here = ids.ge(mine.begin).mul(ids.lt(mine.end));
        const at::Tensor rows = next({ids.sub(mine.begin).mul(here)}, pass)[0].mul(here.unsqueeze(1));
        return nn::Tensors{pass.stream ? nn::SharedRows::sum(pass.stream, rows) : added_up(rows, *peers)};
      });
}

/// Which dimensions of a weight are its layer's inputs and outputs (for an embedding, its tokens and its width).
struct Dims {
  int64_t in = -1, out = -1;  // -1: none
};

Dims dims_of(const nn::Module& layer, const std::string& parameter) {
  static const std::map<std::string, Dims> kKnown{{"bias", {-1, 0}},
                                                  {"lora_A.weight", {1, -1}},
                                                  {"lora_B.weight", {-1, 0}},
                                                  {"lora_start_A.weight", {1, -1}},
                                                  {"lora_start_B.weight", {-1, 0}},
                                                  {"lora_embedding_A", {1, -1}},
                                                  {"lora_embedding_B", {-1, 0}}};
  if (parameter == "weight") {
    const auto* const linear = dynamic_cast<const nn::Linear*>(&layer);
    return linear != nullptr && linear->stored() == nn::Linear::Stored::kOutIn ? Dims{1, 0} : Dims{0, 1};
  }
  const auto found = kKnown.find(parameter);
  if (found == kKnown.end()) throw InternalError("no tensor-parallel rule for {}.{}", layer.path(), parameter);
  return found->second;
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

class Splitter {
 public:
  Splitter(models::Model& model, const dist::MeshPtr& mesh)
      : model_(model),
        rank_(mesh->tensor().rank()),
        ranks_(mesh->tensor().size()),
        peers_(peers_along(mesh, &dist::Mesh::tensor)) {}

  void split(const TensorPlan& plan) {
    for (const TensorPlan::Columns& columns : plan.columns)
      for_each<nn::Module>(model_, columns.layer, [&](nn::Module& layer) { cut_out(layer, columns.fused); });
    for (const std::string& name : plan.rows)
      for_each<nn::Linear>(model_, name, [&](nn::Linear& layer) {
        cut_in(layer);
        leave(layer, peers_);
      });
    for (const TensorPlan::Region& region : plan.regions)
      for_each<nn::Module>(model_, region.module, [&](nn::Module& module) {
        enter(module, region.inputs, peers_);
        note_shares(module);
      });
    for (const std::string& name : plan.embeddings)
      for_each<nn::Embedding>(model_, name, [&](nn::Embedding& embedding) {
        cut_in(embedding);
        look_up(embedding, embedding.weight()->part.ranges.front(), peers_);
        note_shares(embedding);
      });
    if (!plan.head.empty()) for_each<nn::Linear>(model_, plan.head, [&](nn::Linear& head) { split_head(head); });
  }

 private:
  /// This rank's range of `size` rows: if they don't divide evenly, the first ranks have one more.
  nn::Range mine(int64_t size) const {
    const auto begin = [&](int64_t rank) { return (size * rank + ranks_ - 1) / ranks_; };
    return {begin(rank_), begin(rank_ + 1)};
  }

  void cut(nn::Parameter& parameter, int64_t dim, int64_t fused) const {
    if (dim < 0 || !parameter.part.whole()) return;  // a tied weight is split once
    nn::Part part{dim, {}};
    const int64_t size = parameter.shape[static_cast<size_t>(dim)] / fused;
    const nn::Range range = mine(size);
    for (int64_t i = 0; i < fused; ++i) part.ranges.push_back({i * size + range.begin, i * size + range.end});
    parameter.keep(part);
  }

  void cut_out(nn::Module& layer, int64_t fused) const {
    for (const auto& [name, parameter] : layer.parameters()) cut(*parameter, dims_of(layer, name).out, fused);
  }
  void cut_in(nn::Module& layer) const {
    for (const auto& [name, parameter] : layer.parameters()) cut(*parameter, dims_of(layer, name).in, 1);
  }

  void split_head(nn::Linear& head) const {
    cut_out(head, 1);
    enter(head, {0}, peers_);
    note_shares(head);
    const nn::ParameterPtr weight = head.weight();
    model_.share_vocabulary({peers_, weight->part.ranges.front(), weight->whole_shape()[0]});
  }

  /// Marks the gradients of a region's unsplit weights as partial, except biases that are added after a sum.
  static void note_shares(nn::Module& region) {
    region.visit([](nn::Module& module) {
      for (const auto& [name, parameter] : module.parameters())
        if (parameter->part.whole() && name != "bias") parameter->summed = true;
    });
  }

  models::Model& model_;
  int64_t rank_, ranks_;
  PeersPtr peers_;
};

}  // namespace

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

void sum_shares(const std::vector<at::Tensor>& shares, dist::Comm& peers) {
  if (shares.empty() || peers.size() == 1) return;
  const at::NoGradGuard no_grad;
  const dist::CommunicationMemory communication;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& share : shares) flat.push_back(share.view(-1));
  const at::Tensor all = at::cat(flat);
  if (all.numel() > 0) peers.all_reduce(all);
  int64_t at = 0;
  for (const at::Tensor& share : flat) {
    share.copy_(all.narrow(0, at, share.numel()));
    at += share.numel();
  }
}

}  // namespace trainer::parallel
