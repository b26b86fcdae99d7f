#include "engine/weights/write_megatron.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/publish_folder.h"
#include "engine/tensorfile/safetensors_writer.h"
#include "engine/weights/megatron_source.h"
#include "models/llama/model.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// A weight and its place in the layout.
struct Piece {
  nn::ParameterPtr parameter;
  MegatronPlace place;
};
/// The weights that make up each tensor of one stage, by the tensor's name.
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
    // The last stage computes with a copy of a tied embedding, unless it is also the first one.
    for (const std::string& alias : p->aliases)
      if (layout.stages() > 1) add(p, alias);
  }
  return stages;
}

/// The slice of a tensor for `rank`; `wholes` are the weights it is made of.
at::Tensor tensor_of(const std::vector<Piece>& pieces, const std::vector<at::Tensor>& wholes, int64_t rank) {
  const MegatronPlace& place = pieces.front().place;
  const int64_t rows = place.shape[0], columns = place.columns();
  const at::Tensor tensor = at::empty({rows, columns}, wholes.front().options());
  for (size_t i = 0; i < pieces.size(); ++i) {
    const at::Tensor whole = wholes[i].view({wholes[i].size(0), -1});
    if (pieces.size() == 1) tensor.copy_(whole.narrow(0, whole.size(0) - 1, 1).narrow(1, 0, columns).expand_as(tensor));
    for (const MegatronPlace::Block& block : pieces[i].place.blocks)
      if (block.rank == rank)
        tensor.narrow(0, block.at, block.rows)
            .copy_(whole.narrow(0, block.row, block.rows).narrow(1, block.column, block.columns));
  }
  return tensor.view(place.shape);
}

/// Writes the files of all ranks of a stage at the same time, so that each weight is read once.
void write_stage(const std::vector<fs::path>& folders, const Stage& stage, const MegatronDegrees& degrees,
                 const WholeWeights& weights) {
  std::vector<tensorfile::TensorSpec> specs;
  for (const auto& [name, pieces] : stage)
    specs.push_back({name, weights.source->storage(*pieces.front().parameter).dtype, pieces.front().place.shape});
  std::vector<std::unique_ptr<tensorfile::SafetensorsWriter>> writers;
  for (const fs::path& folder : folders) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) throw machine_error("create", folder, error.value());
    writers.push_back(std::make_unique<tensorfile::SafetensorsWriter>(
        folder / kMegatronFile, specs,
        std::map<std::string, std::string>{{kMegatronTensor, std::to_string(degrees.tensor)},
                                           {kMegatronPipeline, std::to_string(degrees.pipeline)}}));
  }
  const auto order = writers.front()->order();
  for (const auto& info : order) {
    const std::vector<Piece>& pieces = stage.at(info.name);
    std::vector<at::Tensor> wholes;
    for (const Piece& piece : pieces) wholes.push_back(weights.read(*piece.parameter));
    for (size_t rank = 0; rank < writers.size(); ++rank)
      writers[rank]->write(info.name, tensor_of(pieces, wholes, static_cast<int64_t>(rank)));
  }
  for (const auto& writer : writers) writer->finish();
}

}  // namespace

void write_megatron(const WholeWeights& weights, const fs::path& source, const fs::path& output,
                    const MegatronDegrees& degrees) {
  const models::llama::Config& config = dynamic_cast<models::llama::LlamaModel&>(*weights.model).config();
  if (const std::string problem = MegatronLayout::problem(config, degrees); !problem.empty())
    throw ConfigError("{}: {}.", source.string(), problem);
  if (fs::exists(output / kMegatronTracker) || fs::exists(output / "config.json"))
    throw ConfigError("{} already holds a model: export to another folder, or remove it.", output.string());
  const std::string iteration = weights.step < 0 ? "release" : fmt::format("iter_{:07}", weights.step);
  const fs::path growing = output / ("." + iteration + ".partial");
  const auto stages = stages_of(weights, {config, degrees});
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    std::vector<fs::path> folders;
    for (int64_t rank = 0; rank < degrees.tensor; ++rank)
      folders.push_back(growing / megatron_rank_folder(rank, static_cast<int64_t>(stage), degrees.pipeline > 1));
    write_stage(folders, stages[stage], degrees, weights);
  }
  publish_folder(growing, output / iteration);
  for (const std::string& name : weights.beside) publish_file(output / name, read_file(source / name));
  // Written last: without it, the folder isn't a Megatron folder.
  publish_file(output / kMegatronTracker, weights.step < 0 ? iteration : std::to_string(weights.step));
}

}  // namespace trainer::checkpoint
