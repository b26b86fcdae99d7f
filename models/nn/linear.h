#pragma once

#include "models/nn/module.h"

namespace trainer::nn {

/// y = x W^T (+ b), in the pass's compute dtype (but see Parameter::fp32_under_fp16). weight [out, in], as Hugging Face
/// stores nn.Linear, or [in, out], as it stores GPT-2's Conv1D. Adapters derive from this class and replace it.
class Linear : public Module {
 public:
  enum class Stored { kOutIn, kInOut };
  Linear(int64_t in, int64_t out, bool bias, Init init, Stored stored = Stored::kOutIn);
  /// A linear layer that uses another layer's weight (a tied head).
  explicit Linear(const ParameterPtr& tied);

  /// x [T, in] → [T, out].
  Rows operator()(const Rows& x, const Pass& pass);

  /// Looked up by name on each call, because the parameter may be swapped.
  ParameterPtr weight() const { return find("weight"); }
  ParameterPtr bias() const { return find("bias"); }  // null: none
  int64_t in() const { return weight()->shape[stored_ == Stored::kOutIn ? 1 : 0]; }
  int64_t out() const { return weight()->shape[stored_ == Stored::kOutIn ? 0 : 1]; }
  Stored stored() const { return stored_; }
  /// The index of this rank's first input, or output, under tensor parallelism; else 0.
  int64_t first_in() const { return first_of(stored_ == Stored::kOutIn ? 1 : 0); }
  int64_t first_out() const { return first_of(stored_ == Stored::kOutIn ? 0 : 1); }
  /// From now on, forward leaves the bias out: the caller adds it.
  void leave_bias_out() { adds_bias_ = false; }
  bool adds_bias() const { return adds_bias_; }
  /// The weight's values as [out, in], however they are stored.
  at::Tensor matrix(at::ScalarType dtype) const;

 protected:
  /// Shares the parameters of `base`: for a module that replaces it.
  explicit Linear(const Linear& base);
  /// x [T, in] → [T, out], in pass.compute.
  virtual at::Tensor project(const Rows& x, const Pass& pass) const;
  RowsList forward(const RowsList& in, const Pass& pass) override { return {in[0].with(project(in[0], pass))}; }

 private:
  ParameterPtr find(const char* name) const;
  int64_t first_of(int64_t dim) const;

  Stored stored_ = Stored::kOutIn;
  bool adds_bias_ = true;
};

/// Rows of weight [V, D] times `scale`, in fp32. (transformers rounds the scale to the dtype of the weights, which is
/// fp32 for master weights.)
class Embedding : public Module {
 public:
  Embedding(int64_t count, int64_t width, Init init, double scale = 1);
  explicit Embedding(const ParameterPtr& tied);
  /// The row of this id gets no gradient from the lookups, as with torch's padding_idx. transformers freezes that of
  /// pad_token_id, which is often the end-of-sequence token, and begins models from scratch with a row of zeros there.
  void freeze_row(int64_t id) { frozen_ = id; }
  /// ids [T] int64 → [T, D].
  Rows operator()(const Rows& ids, const Pass& pass);
  ParameterPtr weight() const { return parameters().front().second; }
  double scale() const { return scale_; }

 protected:
  /// The frozen row in this rank's part of the table, or -1.
  int64_t frozen_row() const;
  /// Shares the weight and scale of `base`: for a module that replaces it.
  explicit Embedding(const Embedding& base);
  RowsList forward(const RowsList& inputs, const Pass& pass) override;

 private:
  double scale_ = 1;
  int64_t frozen_ = -1;
};

}  // namespace trainer::nn
