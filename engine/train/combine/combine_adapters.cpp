#include "engine/train/combine/combine_adapters.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "data/tokenizers/tokenizer_files.h"
#include "engine/base/files.h"
#include "engine/base/growing_folder.h"
#include "engine/train/combine/check_adapters.h"
#include "engine/train/combine/combined_config.h"
#include "engine/weights/export.h"
#include "models/nn/init.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

int64_t rank_of(const SourceAdapters& adapters, const CombineRequest& request) {
  int64_t highest = 0, sum = 0;
  for (const auto& adapter : adapters) highest = std::max(highest, adapter->rank()), sum += adapter->rank();
  if (request.how->concatenates) return sum;
  return request.how->decomposes && request.rank > 0 ? request.rank : highest;
}

adapters::CombineRule rule_of(const CombineRequest& request, const std::string& layer) {
  adapters::CombineRule rule{*request.how, request.density, request.sign_by_frequency, {}};
  rule.draw_mask = [seed = request.seed, layer, count = 0](const at::Tensor& like, double density) mutable {
    nn::Parameter drawn;
    drawn.name = fmt::format("{}.mask.{}", layer, count++);
    drawn.shape = like.sizes().vec();
    drawn.init = {nn::Init::kUniform, 1};
    const at::Tensor values = at::empty(drawn.shape, at::kFloat);
    nn::draw(drawn, seed, 0, values.numel(), values.data_ptr<float>());
    return (values < 2 * density - 1).to(at::kFloat);
  };
  return rule;
}

/// The tensors of the combined adapter; completes `result`.
checkpoint::Gathered combined_tensors(const SourceAdapters& adapters, const CombineRequest& request,
                                      CombineResult& result) {
  checkpoint::Gathered tensors;
  adapters::SumError total;
  for (const auto& [layer, suffixes] : all_layers(adapters)) {
    std::vector<adapters::WeightedPair> pairs;
    for (const auto& adapter : adapters)
      if (adapter->layers().count(layer) > 0) pairs.push_back(adapter->pair(layer));
    const adapters::LowRank combined = adapters::combine(pairs, result.rank, rule_of(request, layer));
    const adapters::SumError error = adapters::error_of(combined, pairs);
    total = {total.sum + error.sum, total.difference + error.difference};
    tensors[layer + suffixes->a] = combined.a;
    tensors[layer + suffixes->b] = combined.b;
    ++result.layers;
  }
  if (request.how->prune == config::Combination::Prune::kNone && total.sum > 0)
    result.error = std::sqrt(total.difference / total.sum);
  for (const auto& adapter : adapters)
    for (const std::string& name : adapter->whole())
      if (tensors.emplace(name, adapter->file().tensor(name)).second) result.whole.push_back(name);
  return tensors;
}

/// Copies the tokenizer of the first adapter that has one.
void copy_tokenizer(const SourceAdapters& adapters, const fs::path& folder, CombineResult& result) {
  const auto text = [](const fs::path& file) { return fs::exists(file) ? read_file(file) : ""; };
  const SourceAdapter* from = nullptr;
  for (const auto& adapter : adapters) {
    const auto files = data::tokenizer_files_in(adapter->folder());
    if (files.empty()) continue;
    if (from == nullptr) {
      from = adapter.get();
      for (const fs::path& file : files) publish_file(folder / file.filename(), read_file(file));
    }
    for (const char* const name : {"tokenizer.json", "spiece.model", "tokenizer.model"})
      if (fs::exists(fs::path(adapter->folder()) / name) &&
          text(fs::path(adapter->folder()) / name) != text(folder / name))
        result.warnings.push_back(
            fmt::format("the tokenizer is that of {}; {} has another {}", from->folder(), adapter->folder(), name));
  }
}

}  // namespace

CombineResult combine_adapters(const CombineRequest& request) {
  const at::NoGradGuard no_grad;
  const SourceAdapters adapters = open_adapters(request.adapters);
  check_adapters(adapters, request);
  CombineResult result;
  result.rank = rank_of(adapters, request);
  result.base = request.base;
  for (const auto& adapter : adapters)
    if (result.base.empty()) result.base = adapter->base().model;
  GrowingFolder folder(request.output);
  checkpoint::write_tensors(folder.path() / "adapter_model.safetensors", combined_tensors(adapters, request, result));
  publish_file(folder.path() / "adapter_config.json", combined_config(adapters, result).dump(2) + "\n");
  copy_tokenizer(adapters, folder.path(), result);
  folder.publish();
  return result;
}

}  // namespace trainer::train
