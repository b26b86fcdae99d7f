#include "engine/parallel/pipeline_stages.h"

#include "engine/base/errors.h"
#include "engine/base/listed.h"

namespace trainer::parallel {
namespace {

/// `count` blocks starting at `begin`, split evenly into `parts`.
void append_even(int64_t begin, int64_t count, int64_t parts, std::vector<models::Chunk>& to) {
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t blocks = count / parts + (part < count % parts ? 1 : 0);
    to.push_back({begin, begin + blocks});
    begin += blocks;
  }
}

void hold(nn::Module& module, const std::map<nn::Module*, int>& roots, int rank,
          std::map<nn::ParameterPtr, std::set<int>>& holders) {
  if (const auto found = roots.find(&module); found != roots.end()) rank = found->second;
  for (const auto& [name, parameter] : module.parameters()) holders[parameter].insert(rank);
  for (nn::Module::Child& child : module.children()) hold(*child.module, roots, rank, holders);
}

}  // namespace

std::vector<models::Chunk> split_into_chunks(models::Model& model, const PipelineOptions& options) {
  if (dynamic_cast<models::DecoderModel*>(&model) == nullptr)
    throw ConfigError(
        "parallelism_config_pp_size is {}, but {} has no single stack of decoder blocks to split into pipeline stages; "
        "the LLaMA family and GPT-2 have one.\n  Use data parallel ranks or FSDP.",
        options.shape.ranks, model.class_name());
  const auto blocks = static_cast<int64_t>(model.blocks().size());
  const int64_t parts = options.shape.ranks * options.shape.chunks;
  if (blocks < parts)
    throw ConfigError(
        "parallelism_config_pp_size is {}{}, which splits the model into {} stages, but it has {}: at most {} "
        "possible.",
        options.shape.ranks, options.shape.chunks > 1 ? fmt::format(" x {} chunks", options.shape.chunks) : "", parts,
        counted(blocks, "block", "blocks"), counted(blocks, "stage is", "stages are"));
  std::vector<models::Chunk> chunks;
  if (options.last_blocks == 0) {
    append_even(0, blocks, parts, chunks);
    return chunks;
  }
  const int64_t others = blocks - options.last_blocks;
  if (others < parts - 1)
    throw ConfigError(
        "the last pipeline stage is to have {} of the model's {} blocks, which leaves {} for {} stages; each needs at "
        "least one.",
        options.last_blocks, blocks, others, parts - 1);
  append_even(0, others, parts - 1, chunks);
  chunks.push_back({others, blocks});
  return chunks;
}

std::map<nn::ParameterPtr, std::set<int>> holders_of(models::Model& model, const std::vector<models::Chunk>& chunks,
                                                     int ranks) {
  std::map<nn::Module*, int> roots;
  if (ranks > 1)
    for (nn::Module* module : static_cast<models::DecoderModel&>(model).stack().embeddings()) roots[module] = 0;
  const std::vector<nn::Module*> blocks = model.blocks();
  for (size_t n = 0; n < chunks.size(); ++n)
    for (int64_t i = chunks[n].begin; i < chunks[n].end; ++i)
      roots[blocks[static_cast<size_t>(i)]] = static_cast<int>(n) % ranks;
  std::map<nn::ParameterPtr, std::set<int>> holders;
  hold(model, roots, ranks - 1, holders);
  return holders;
}

}  // namespace trainer::parallel
