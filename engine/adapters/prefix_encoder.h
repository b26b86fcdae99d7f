#pragma once

#include <map>
#include <string>

#include "models/nn/module.h"

namespace trainer::adapters {

struct PrefixShape {
  bool projected = false;  // false: the values are learned directly
  int64_t tokens = 0, layers = 0;
  int64_t width = 0;  // of a token's keys in one layer, and of its values
  int64_t hidden = 0;

  int64_t numbers() const { return 2 * layers * width; }  // per token
};

/// The prefix [tokens, numbers] computed from the weights, which are keyed by their names in PrefixEncoder.
at::Tensor encode_prefix(const PrefixShape& shape, const std::map<std::string, at::Tensor>& weights);

/// The source of a prefix's keys and values: a weight, or a small network. Source: Li and Liang 2021.
class PrefixEncoder : public nn::Module {
 public:
  explicit PrefixEncoder(const PrefixShape& shape);

  at::Tensor operator()(const nn::Pass& pass) { return Module::operator()({}, pass)[0].x; }
  const PrefixShape& shape() const { return shape_; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  PrefixShape shape_;
};

}  // namespace trainer::adapters
