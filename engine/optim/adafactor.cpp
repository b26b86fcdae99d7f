#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/zeros.h>

#include "engine/optim/optimizers.h"

namespace trainer::optim {
namespace {

constexpr double kDecayRate = -0.8, kEpsilon = 1e-30, kClipThreshold = 1.0;  // transformers' defaults
constexpr int64_t kBlock = int64_t{1} << 20;                                 // elements processed at a time

/// A tensor as a stack of matrices, its last two dimensions. Only the means over rows and over columns of its squared
/// gradients are stored.
struct Matrices {
  int64_t rows = 0, columns = 0;  // of one matrix
  at::Tensor row, column;         // means of squares, [matrices * rows] and [matrices * columns], whole on every rank

  bool none() const { return columns == 0; }
};

/// A part of a shard that covers whole rows of one matrix, or lies within one row.
struct Block {
  int64_t offset;         // of its first element in the rank's shard
  int64_t row, rows;      // counted over all matrices
  int64_t column, width;  // the column is counted over all matrices too, as in Matrices::column

  at::Tensor of(const at::Tensor& piece) const { return piece.narrow(0, offset, rows * width).view({rows, width}); }
};

/// This rank's shard of a tensor, split into blocks.
std::vector<Block> blocks_of(const Matrices& m, const parallel::LogicalTensor& tensor) {
  std::vector<Block> blocks;
  for (const nn::Run& run : nn::runs_of(tensor.part, tensor.shape, tensor.begin, tensor.end))
    for (int64_t at = run.whole, end = run.whole + run.count; at < end;) {
      const int64_t row = at / m.columns, column = at % m.columns, left = end - at;
      Block block{run.part - tensor.begin + at - run.whole, row, 1, row / m.rows * m.columns + column,
                  std::min(left, m.columns - column)};
      if (block.width == m.columns)
        block.rows = std::min({left / m.columns, m.rows - row % m.rows, std::max<int64_t>(1, kBlock / m.columns)});
      at += block.rows * block.width;
      blocks.push_back(block);
    }
  return blocks;
}

/// Note [Adafactor over ranks]
/// A rank holds a flat shard of a tensor, but the means of rows and columns are over the whole tensor. They are small,
/// so every rank keeps all of them: one collective sums the partial sums of all tensors, a second one sums the squares
/// that give the RMS of the updates. For a shard that several ranks hold, only the first one contributes; if every rank
/// holds everything, nothing is communicated.
class Adafactor : public Optimizer {
 public:
  Adafactor(const config::TrainingConfig& o, const Trained& trained, dist::Comm& comm)
      : Optimizer(o), comm_(comm), device_(device_of(trained)) {
    for (const auto& tensor : trained) {
      matrices_.push_back(tensor.shape.size() < 2 ? Matrices{} : add_means(tensor));
      exp_avg_sq_.push_back(matrices_.back().none() ? add_state("exp_avg_sq", tensor) : at::Tensor());
      spread_ = spread_ || !tensor.replicated;
    }
  }

  const char* name() const override { return "adafactor"; }

 protected:
  void prepare(const Trained& trained) override {
    const double fresh = std::pow(static_cast<double>(steps()), kDecayRate);  // weight of this update
    average_squares(trained, fresh);
    const at::Tensor sums = at::zeros({static_cast<int64_t>(trained.size())}, options(at::kDouble));
    for (size_t i = 0; i < trained.size(); ++i) {
      scale_gradient(trained[i], i, fresh);
      if (counts(trained[i])) add_squares(trained[i].grad, sums[static_cast<int64_t>(i)]);
    }
    if (spread_) comm_.all_reduce(sums);
    clips_.clear();
    for (size_t i = 0; i < trained.size(); ++i) {
      const double numel = static_cast<double>(trained[i].numel());
      clips_.push_back(sums[static_cast<int64_t>(i)].div(numel).sqrt_().div_(kClipThreshold).clamp_min_(1));
    }
  }

  void update(Group& group, double learning_rate) override {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor& x = group.values[i];
      if (group.weight_decay != 0) x.mul_(1 - learning_rate * group.weight_decay);
      x.sub_(group.grads[i].div_(clips_[group.places[i]]), learning_rate);
    }
  }

 private:
  at::TensorOptions options(at::ScalarType type) const { return at::TensorOptions(device_).dtype(type); }
  bool counts(const parallel::LogicalTensor& tensor) const { return !spread_ || tensor.copy == 0; }

  Matrices add_means(const parallel::LogicalTensor& tensor) {
    std::vector<int64_t> row_shape(tensor.shape.begin(), tensor.shape.end() - 1), column_shape = row_shape;
    column_shape.back() = tensor.shape.back();
    Matrices m{row_shape.back(), column_shape.back(), {}, {}};
    m.row = at::zeros({tensor.numel() / m.columns}, options(at::kFloat));
    m.column = at::zeros({tensor.numel() / m.rows}, options(at::kFloat));
    add_state({"exp_avg_sq_row", tensor.name, m.row, row_shape});
    add_state({"exp_avg_sq_col", tensor.name, m.column, column_shape});
    numbers_ += m.row.numel() + m.column.numel();
    return m;
  }

  /// Collective. Adds the squared gradients to the running means of rows and columns.
  void average_squares(const Trained& trained, double fresh) {
    const at::Tensor sums = at::zeros({numbers_}, options(at::kFloat));
    int64_t at = 0;
    std::vector<std::pair<at::Tensor, at::Tensor>> parts;
    for (size_t i = 0; i < trained.size(); ++i) {
      const Matrices& m = matrices_[i];
      if (m.none()) continue;
      const at::Tensor row = sums.narrow(0, at, m.row.numel()),
                       column = sums.narrow(0, at + row.numel(), m.column.numel());
      at += row.numel() + column.numel();
      parts.emplace_back(row, column);
      if (counts(trained[i])) add_sums(trained[i], m, row, column);
    }
    if (spread_ && numbers_ > 0) comm_.all_reduce(sums);
    auto part = parts.begin();
    for (const Matrices& m : matrices_) {
      if (m.none()) continue;
      m.row.mul_(1 - fresh).add_(part->first, fresh / static_cast<double>(m.columns));
      m.column.mul_(1 - fresh).add_(part->second, fresh / static_cast<double>(m.rows));
      ++part;
    }
  }

  static void add_sums(const parallel::LogicalTensor& tensor, const Matrices& m, const at::Tensor& row,
                       const at::Tensor& column) {
    for (const Block& block : blocks_of(m, tensor)) {
      const at::Tensor squares = block.of(tensor.grad).square().add_(kEpsilon);
      row.narrow(0, block.row, block.rows).add_(squares.sum(1));
      column.narrow(0, block.column, block.width).add_(squares.sum(0));
    }
  }

  /// Divides the gradient by the root of its mean square estimate, in place.
  void scale_gradient(const parallel::LogicalTensor& tensor, size_t place, double fresh) {
    const Matrices& m = matrices_[place];
    if (m.none()) {
      const at::Tensor& squares = exp_avg_sq_[place];
      squares.mul_(1 - fresh).add_(tensor.grad.square().add_(kEpsilon), fresh);
      tensor.grad.mul_(squares.rsqrt());
      return;
    }
    const at::Tensor rows = m.row.view({-1, m.rows});
    const at::Tensor by_row = rows.div(rows.mean({1}, /*keepdim=*/true)).rsqrt_().view(-1),
                     by_column = m.column.rsqrt();
    for (const Block& block : blocks_of(m, tensor))
      block.of(tensor.grad)
          .mul_(by_row.narrow(0, block.row, block.rows).unsqueeze(1))
          .mul_(by_column.narrow(0, block.column, block.width));
  }

  static void add_squares(const at::Tensor& values, const at::Tensor& sum) {
    for (int64_t at = 0; at < values.numel(); at += kBlock)
      sum.add_(values.narrow(0, at, std::min(kBlock, values.numel() - at)).square().sum(at::kDouble));
  }

  dist::Comm& comm_;
  at::Device device_;
  bool spread_ = false;
  int64_t numbers_ = 0;  // number of means, over all tensors
  std::vector<Matrices> matrices_;
  std::vector<at::Tensor> exp_avg_sq_;  // of tensors that aren't matrices
  std::vector<at::Tensor> clips_;       // of the current update: the divisor of each tensor's update
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const config::TrainingConfig& options, const Trained& trained,
                                          dist::Comm& comm) {
  return std::make_unique<Adafactor>(options, trained, comm);
}

}  // namespace trainer::optim
