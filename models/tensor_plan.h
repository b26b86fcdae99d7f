// How the layers of a family may be shared out among ranks (Megatron's tensor parallel).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainer::models {

/// Modules are named by the ends of their paths ("q_proj"). In a region, ranks work side by side on the same rows: some
/// columns of each layer they enter by, and the rows of the layer they leave by that go with them. What is in no region
/// is the same on every rank. Source: Shoeybi et al. 2019.
struct TensorPlan {
  struct Size {
    std::string name;  // config.json's
    int64_t value;
  };
  struct Region {
    std::string module;
    std::vector<size_t> inputs = {0};  // of its forward: those that are the same on every rank, and may have gradients
  };
  struct Stack {
    std::string module;
    bool target = false;  // it works on the rows of the target, not of the source
  };
  struct Columns {
    std::string layer;
    int64_t fused = 1;  // layers that lie in it one behind the other, each of which is shared out
  };

  std::vector<Size> divided;            // what the number of ranks must divide
  std::vector<Region> regions;          // none: this family cannot be shared out
  std::vector<Columns> columns;         // linear layers by their outputs, embeddings by their width
  std::vector<std::string> rows;        // linear layers by their inputs: what they give is a share of a sum
  std::vector<std::string> embeddings;  // by their tokens
  std::vector<Stack> stacks;            // what takes ids and gives states; between its regions, rows may be shared out
  std::string head;                     // the linear layer that gives a logit for each token; "": there is none
};

}  // namespace trainer::models
