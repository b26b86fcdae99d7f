#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/bucketize.h>
#include <ATen/ops/full.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "engine/optim/adamw.h"
#include "engine/optim/optimizers.h"
#include "engine/optim/parameter_rules.h"
#include "models/nn/dynamic_map.h"

namespace trainer::optim {
namespace {

// bitsandbytes' values.
constexpr int64_t kScaled = 256;          // elements of a block, which share a scale
constexpr int64_t kLeast8Bit = 4096;      // a smaller tensor has fp32 state
constexpr int64_t kMost = kScaled << 10;  // elements processed at a time

/// The 256 values that codes stand for, times the scale of their block.
class Codes {
 public:
  Codes(bool with_sign, at::Device device) {
    const std::vector<float> values = nn::dynamic_map(with_sign);
    zero_ = std::lower_bound(values.begin(), values.end(), 0.0F) - values.begin();
    values_ = at::tensor(values, at::kFloat).to(device);
    const int64_t count = values_.numel() - 1;
    bounds_ = values_.narrow(0, 0, count).add(values_.narrow(0, 1, count)).div_(2.0);
  }

  /// The code of 0.
  int64_t zero() const { return zero_; }
  /// codes [n, kScaled], scale [n].
  at::Tensor decoded(const at::Tensor& codes, const at::Tensor& scale) const {
    return values_.index_select(0, codes.reshape({-1}).to(at::kInt)).view(codes.sizes()).mul_(scale.unsqueeze(1));
  }
  /// The nearest codes.
  at::Tensor encoded(const at::Tensor& x, const at::Tensor& scale) const {
    return at::bucketize(x.div(scale.unsqueeze(1)), bounds_, /*out_int32=*/true).to(at::kByte);
  }

 private:
  int64_t zero_ = 0;
  at::Tensor values_, bounds_;  // [256], [255]
};

/// Contiguous elements of a rank's shard, and the blocks of the whole tensor that they lie in.
struct Chunk {
  int64_t offset, count;  // in the shard
  int64_t block, blocks;
  int64_t before;  // elements of the first block that precede them

  bool fills_blocks() const { return count == blocks * kScaled; }
  /// The blocks [blocks, kScaled]: a view, or a copy with `other` in place of elements that aren't in the chunk.
  at::Tensor of(const at::Tensor& shard, int64_t other = 0) const {
    const at::Tensor mine = shard.narrow(0, offset, count);
    if (fills_blocks()) return mine.view({blocks, kScaled});
    const at::Tensor padded = at::full({blocks * kScaled}, other, mine.options());
    padded.narrow(0, before, count).copy_(mine);
    return padded.view({blocks, kScaled});
  }
  void put(const at::Tensor& values, const at::Tensor& shard) const {
    shard.narrow(0, offset, count).copy_(values.view(-1).narrow(0, before, count));
  }
  at::Tensor scales(const at::Tensor& of_tensor) const { return of_tensor.narrow(0, block, blocks); }
};

std::vector<Chunk> chunks_of(const parallel::LogicalTensor& tensor) {
  std::vector<Chunk> chunks;
  for (const nn::Run& run : nn::runs_of(tensor.part, tensor.shape, tensor.begin, tensor.end))
    for (int64_t at = run.whole, end = run.whole + run.count; at < end;) {
      const int64_t block = at / kScaled, stop = std::min(end, block * kScaled + kMost);
      chunks.push_back(
          {run.part - tensor.begin + at - run.whole, stop - at, block, (stop - 1) / kScaled - block + 1, at % kScaled});
      at = stop;
    }
  return chunks;
}

/// Codes of second moments, those of v > 0 at least the smallest one above that of 0. A first moment has a code above 0
/// down to 3e-7 of its block's largest, a second moment only where the gradient is 4e-4 of it. Between them v would be
/// 0, and where the next gradient is 0 too, as behind a ReLU, m / (sqrt(v) + eps) thousands of times too large.
at::Tensor above_zero(const at::Tensor& codes, const at::Tensor& v) {
  return at::maximum(codes, v.gt(0).to(at::kByte));
}

/// A moment of a tensor.
struct Moment {
  at::Tensor codes;  // laid out like the parameter
  at::Tensor scale;  // of each block of the whole tensor, whole on every rank
  at::Tensor spare;  // in an update: first the new scales, then the old ones
};

/// Note [8-bit AdamW over ranks]
/// A block may lie in the shards of several ranks. So a rank keeps the scales of all blocks of a tensor, 4 bytes per
/// 256 elements, and before the update one collective takes the maxima over ranks: the result doesn't depend on how
/// tensors are sharded, and any other sharding can load it.
class AdamW8Bit : public Optimizer {
 public:
  AdamW8Bit(const config::TrainingConfig& o, const Trained& trained, dist::Comm& comm)
      : Optimizer(o),
        options_(o),
        comm_(comm),
        signed_(true, device_of(trained)),
        unsigned_(false, device_of(trained)) {
    for (const auto& tensor : trained) add_states(tensor);
  }

  const char* name() const override { return "adamw_8bit"; }

 protected:
  void prepare(const Trained& trained) override {
    const at::Tensor scales = at::zeros({2 * blocks_}, at::TensorOptions(device_of(trained)).dtype(at::kFloat));
    int64_t at = 0;
    for (size_t i = 0; i < trained.size(); ++i)
      for (Moment* moment : {&states_[i].m, &states_[i].v}) {
        if (!moment->scale.defined()) continue;
        moment->spare = scales.narrow(0, at, moment->scale.numel());
        at += moment->scale.numel();
      }
    for (size_t i = 0; i < trained.size(); ++i)
      for (const Chunk& chunk : states_[i].chunks) add_maxima(states_[i], chunk, trained[i].grad);
    if (spread_ && blocks_ > 0) comm_.all_reduce(scales, dist::Reduce::kMax);
    scales.add_(scales.eq(0));  // bitsandbytes' scale of a block of zeros is 1
    for (State& state : states_)
      for (Moment* moment : {&state.m, &state.v}) {
        if (!moment->scale.defined()) continue;
        const at::Tensor old = moment->scale.clone();
        moment->scale.copy_(moment->spare);
        moment->spare.copy_(old);
      }
  }

  void update(Group& group, double learning_rate) override {
    const AdamWStep step(options_, steps());
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor &x = group.values[i], &g = group.grads[i];
      const State& state = states_[group.places[i]];
      if (!state.m.scale.defined()) {
        step.average(state.m.codes, state.v.codes, g);
        step.move(x, state.m.codes, state.v.codes, learning_rate, group.weight_decay);
      }
      for (const Chunk& chunk : state.chunks) {
        const auto [m, v] = averaged(state, chunk, g, state.m.spare, state.v.spare);
        const at::Tensor values = chunk.of(x);
        step.move(values, m, v, learning_rate, group.weight_decay);
        if (!chunk.fills_blocks()) chunk.put(values, x);
        chunk.put(signed_.encoded(m, chunk.scales(state.m.scale)), state.m.codes);
        chunk.put(above_zero(unsigned_.encoded(v, chunk.scales(state.v.scale)), v), state.v.codes);
      }
    }
  }

 private:
  /// In 8 bits; or in fp32, with neither scales nor chunks, and `codes` the moments.
  struct State {
    Moment m, v;
    std::vector<Chunk> chunks;
  };

  void add_states(const parallel::LogicalTensor& tensor) {
    const bool eight_bit = tensor.numel() >= kLeast8Bit && !is_embedding(tensor.name);
    const at::ScalarType dtype = eight_bit ? at::kByte : at::kFloat;
    State& state = states_.emplace_back();
    state.m.codes = add_state("exp_avg", tensor, dtype);
    state.v.codes = add_state("exp_avg_sq", tensor, dtype);
    if (!eight_bit) return;
    state.chunks = chunks_of(tensor);
    state.m.scale = add_scale("exp_avg_absmax", tensor);
    state.v.scale = add_scale("exp_avg_sq_absmax", tensor);
    spread_ = spread_ || !tensor.replicated;
  }

  at::Tensor add_scale(const char* kind, const parallel::LogicalTensor& tensor) {
    const int64_t blocks = (tensor.numel() + kScaled - 1) / kScaled;
    const at::Tensor scale = at::zeros({blocks}, tensor.value.options());
    add_state({kind, tensor.name, scale, {blocks}});
    if (kind == std::string_view("exp_avg_absmax")) blocks_ += blocks;
    return scale;
  }

  /// The moments [blocks, kScaled] with the gradient averaged in, from their codes and the given scales.
  std::pair<at::Tensor, at::Tensor> averaged(const State& state, const Chunk& chunk, const at::Tensor& grad,
                                             const at::Tensor& m_scale, const at::Tensor& v_scale) const {
    const at::Tensor g = chunk.of(grad);
    const at::Tensor m = signed_.decoded(chunk.of(state.m.codes, signed_.zero()), chunk.scales(m_scale)),
                     v = unsigned_.decoded(chunk.of(state.v.codes, unsigned_.zero()), chunk.scales(v_scale));
    m.mul_(options_.adam_beta1).add_(g, 1 - options_.adam_beta1);
    v.mul_(options_.adam_beta2).addcmul_(g, g, 1 - options_.adam_beta2);
    return {m, v};
  }

  void add_maxima(const State& state, const Chunk& chunk, const at::Tensor& grad) const {
    const auto [m, v] = averaged(state, chunk, grad, state.m.scale, state.v.scale);
    for (const auto& [values, all] : {std::pair{m, state.m.spare}, std::pair{v, state.v.spare}}) {
      const at::Tensor most = chunk.scales(all);
      most.copy_(at::maximum(most, at::maximum(values.amax({1}), values.amin({1}).neg())));
    }
  }

  config::TrainingConfig options_;
  dist::Comm& comm_;
  Codes signed_, unsigned_;
  bool spread_ = false;
  int64_t blocks_ = 0;  // of all tensors
  std::vector<State> states_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw_8bit(const config::TrainingConfig& options, const Trained& trained,
                                           dist::Comm& comm) {
  return std::make_unique<AdamW8Bit>(options, trained, comm);
}

}  // namespace trainer::optim
