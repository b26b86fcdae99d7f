#include "engine/checkpoint/export_megatron.h"

#include <map>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/megatron_source.h"
#include "engine/checkpoint/whole_weights.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "models/llama/model.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// A weight and where it goes.
struct Piece {
  nn::ParameterPtr parameter;
  MegatronPlace place;
};
/// What the tensors of one stage are made of, by name.
using Stage = std::map<std::string, std::vector<Piece>>;

std::vector<Stage> stages_of(const WholeWeights& weights, const MegatronLayout& layout) {
  std::vector<Stage> stages(static_cast<size_t>(layout.stages()));
  const auto add = [&](const nn::ParameterPtr& parameter, const std::string& name) {
    const auto place = layout.place(name, parameter->shape);
    if (!place) throw ConfigError("{} has no place in Megatron's layout.", name);
    stages.at(static_cast<size_t>(place->stage))[place->name].push_back({parameter, *place});
  };
  for (const nn::ParameterPtr& p : weights.model->all_parameters()) {
    add(p, p->name);
    // The last stage computes with a copy of a tied embedding, unless it is the first one too.
    for (const std::string& alias : p->aliases)
      if (layout.stages() > 1) add(p, alias);
  }
  return stages;
}

at::Tensor tensor_of(const std::vector<Piece>& pieces, int64_t rank, const WholeWeights& weights) {
  const MegatronPlace& place = pieces.front().place;
  const int64_t rows = place.shape[0], columns = place.columns();
  const at::Tensor tensor = at::empty({rows, columns}, weights.source->dtype(*pieces.front().parameter));
  for (const auto& [parameter, its] : pieces) {
    const at::Tensor read = weights.read(*parameter), whole = read.view({read.size(0), -1});
    if (pieces.size() == 1) tensor.copy_(whole.narrow(0, whole.size(0) - 1, 1).narrow(1, 0, columns).expand_as(tensor));
    for (const MegatronPlace::Block& block : its.blocks)
      if (block.rank == rank)
        tensor.narrow(0, block.at, block.rows)
            .copy_(whole.narrow(0, block.row, block.rows).narrow(1, block.column, block.columns));
  }
  return tensor.view(place.shape);
}

void write_rank(const fs::path& folder, const Stage& stage, int64_t rank, const MegatronDegrees& degrees,
                const WholeWeights& weights) {
  std::vector<tensorfile::TensorSpec> specs;
  for (const auto& [name, pieces] : stage)
    specs.push_back({name, weights.source->dtype(*pieces.front().parameter), pieces.front().place.shape});
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw machine_error("create", folder, error.value());
  tensorfile::SafetensorsWriter writer(
      folder / kMegatronFile, specs,
      {{kMegatronTensor, std::to_string(degrees.tensor)}, {kMegatronPipeline, std::to_string(degrees.pipeline)}});
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, tensor_of(stage.at(info.name), rank, weights));
  writer.finish();
}

}  // namespace

void export_megatron(const fs::path& source, const fs::path& output, const MegatronDegrees& degrees) {
  const at::NoGradGuard no_grad;
  const WholeWeights weights = open_whole_weights(source);
  const models::llama::Config& config = dynamic_cast<models::llama::LlamaModel&>(*weights.model).config();
  if (const std::string problem = MegatronLayout::problem(config, degrees); !problem.empty())
    throw ConfigError("{}: {}.", source.string(), problem);
  if (fs::exists(output / kMegatronTracker) || fs::exists(output / "config.json"))
    throw ConfigError("{} holds a model already: export to another folder, or remove it.", output.string());
  const std::string iteration = weights.step < 0 ? "release" : fmt::format("iter_{:07}", weights.step);
  const fs::path growing = output / ("." + iteration + ".partial");
  const auto stages = stages_of(weights, {config, degrees});
  for (size_t stage = 0; stage < stages.size(); ++stage)
    for (int64_t rank = 0; rank < degrees.tensor; ++rank)
      write_rank(growing / megatron_rank_folder(rank, static_cast<int64_t>(stage), degrees.pipeline > 1), stages[stage],
                 rank, degrees, weights);
  publish_folder(growing, output / iteration);
  for (const std::string& name : weights.beside) publish_file(output / name, read_file(source / name));
  // Last: without it, it is no folder of Megatron's.
  publish_file(output / kMegatronTracker, weights.step < 0 ? iteration : std::to_string(weights.step));
}

}  // namespace trainer::checkpoint
