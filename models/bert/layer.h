// One block of BERT. Module names and nesting match transformers', because files and wrap policies use those names.
#pragma once

#include "models/bert/config.h"
#include "models/nn/layer_norm_module.h"
#include "models/nn/linear.h"

namespace trainer::models::bert {

/// Every token attends to all tokens of its sample.
class BertSelfAttention : public nn::Module {
 public:
  BertSelfAttention(const BertConfig& config, int64_t layer);
  /// x [T, D] → [T, D].
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  BertConfig config_;
  int64_t layer_;
  nn::Slot<nn::Linear> query_, key_, value_;
};

/// Adds a sublayer's output to the residual stream: norm(residual + dropout(dense x)). "BertSelfOutput", "BertOutput".
class BertResidual : public nn::Module {
 public:
  BertResidual(const BertConfig& config, const char* class_name, int64_t in);
  /// x [T, in], residual [T, D] fp32 → [T, D] fp32.
  nn::Rows operator()(const nn::Rows& x, const nn::Rows& residual, const nn::Pass& pass) {
    return Module::operator()({x, residual}, pass)[0];
  }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  double dropout_;
  nn::Slot<nn::Linear> dense_;
  nn::Slot<nn::LayerNorm> layer_norm_;
};

class BertAttention : public nn::Module {
 public:
  BertAttention(const BertConfig& config, int64_t layer);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<BertSelfAttention> self_;
  nn::Slot<BertResidual> output_;
};

/// act(dense x).
class BertIntermediate : public nn::Module {
 public:
  explicit BertIntermediate(const BertConfig& config);
  nn::Rows operator()(const nn::Rows& x, const nn::Pass& pass) { return Module::operator()({x}, pass)[0]; }

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Activation activation_;
  nn::Slot<nn::Linear> dense_;
};

/// h = norm(x + dropout(attention x)), then norm(h + dropout(feed-forward h)). x [T, D] fp32.
class BertLayer : public nn::Module {
 public:
  BertLayer(const BertConfig& config, int64_t layer);

 protected:
  nn::RowsList forward(const nn::RowsList& inputs, const nn::Pass& pass) override;

 private:
  nn::Slot<BertAttention> attention_;
  nn::Slot<BertIntermediate> intermediate_;
  nn::Slot<BertResidual> output_;
};

/// Initialization of every linear layer and embedding.
nn::Init normal(const BertConfig& config);

}  // namespace trainer::models::bert
