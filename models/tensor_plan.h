// How to split the layers of a family over tensor-parallel ranks, as in Megatron.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::models {

/// Modules are named by the ends of their paths ("q_proj"). In a region, ranks work in parallel on the same rows: the
/// layers at its entry are column-parallel, the layer at its exit is row-parallel with the matching rows. Everything
/// outside the regions is replicated. Source: Shoeybi et al. 2019.
struct TensorPlan {
  struct Size {
    std::string name;  // as in config.json
    int64_t value;
  };
  struct Region {
    std::string module;
    std::vector<size_t> inputs = {0};  // forward's inputs that are replicated and may require gradients
  };
  struct Columns {
    std::string layer;
    int64_t fused = 1;  // number of layers fused in it, each of which is split
  };

  std::vector<Size> divided;            // sizes that the number of ranks must divide
  std::vector<Region> regions;          // empty: this family does not support tensor parallelism
  std::vector<Columns> columns;         // linear layers split by output, embeddings split by width
  std::vector<std::string> rows;        // linear layers split by input: they return partial sums
  std::vector<std::string> embeddings;  // split by token
  std::vector<std::string> stacks;      // modules that map ids to states; rows between regions may be sequence-parallel
  std::string head;                     // the linear layer that computes the logits; "": none
};

}  // namespace trainer::models
