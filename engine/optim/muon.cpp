#include <algorithm>
#include <cmath>

#include <ATen/TensorOperators.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>

#include "engine/config/plan/optim_args.h"
#include "engine/optim/adamw.h"
#include "engine/optim/optimizers.h"
#include "engine/optim/parameter_rules.h"
#include "engine/parallel/gather.h"

namespace trainer::optim {
namespace {

constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // torch's coefficients of the quintic iteration

/// The nearest orthogonal matrix to `update` [rows, columns], roughly, in bf16: Newton-Schulz as in torch.optim.Muon.
at::Tensor orthogonalized(const at::Tensor& update, double epsilon, int64_t steps) {
  const bool tall = update.size(0) > update.size(1);
  at::Tensor x = tall ? update.t() : update;
  x = x.div(x.norm().clamp_min(epsilon));
  for (int64_t i = 0; i < steps; ++i) {
    const at::Tensor gram = x.matmul(x.t());
    x = at::addmm(x, at::addmm(gram, gram, gram, kB, kC), x, kA);
  }
  return (tall ? x.t() : x).contiguous();
}

/// Note [Muon over ranks]
/// A rank may hold a shard of a matrix, but the iteration needs all of it. So the ranks gather one matrix after the
/// other, in bf16, as the iteration starts from that anyway; each rank keeps and orthogonalizes one of every size()
/// matrices, and sends the result to all. So ranks share the work, also where each holds everything, and can't drift
/// apart. Under local SGD, whose ranks have different gradients, each does all.
class Muon : public Optimizer {
 public:
  Muon(const config::TrainingConfig& o, const Trained& trained, dist::Comm& comm)
      : Optimizer(o), options_(o), comm_(comm), workers_(o.local_sgd_steps > 0 ? 1 : comm.size()) {
    const config::OptimArgs args = config::read_optim_args(o);
    momentum_ = args.get("momentum", 0.95);
    nesterov_ = args.get("nesterov", 1) != 0;
    epsilon_ = args.get("eps", 1e-7);
    steps_of_iteration_ = static_cast<int64_t>(args.get("ns_steps", 5));
    match_adamw_ = args.get("adjust_lr_fn", 0) != 0;
    for (const auto& tensor : trained) add_states(tensor);
  }

  const char* name() const override { return "muon"; }

 protected:
  /// Replaces the gradients of matrices by their orthogonalized momentum.
  void prepare(const Trained& trained) override {
    std::vector<size_t> matrices;
    for (size_t i = 0; i < trained.size(); ++i)
      if (momentum_buffer_[i].defined()) matrices.push_back(i);
    for (size_t begin = 0; begin < matrices.size(); begin += static_cast<size_t>(workers_)) {
      const size_t end = std::min(matrices.size(), begin + static_cast<size_t>(workers_));
      orthogonalize(trained,
                    {matrices.begin() + static_cast<ptrdiff_t>(begin), matrices.begin() + static_cast<ptrdiff_t>(end)});
    }
  }

  void update(Group& group, double learning_rate) override {
    const AdamWStep step(options_, steps());
    for (size_t i = 0; i < group.values.size(); ++i) {
      const at::Tensor &x = group.values[i], &g = group.grads[i];
      const size_t place = group.places[i];
      if (momentum_buffer_[place].defined()) {
        x.mul_(1 - learning_rate * group.weight_decay);
        x.add_(g, -learning_rate * rate_[place]);
      } else {
        step.average(exp_avg_[place], exp_avg_sq_[place], g);
        step.move(x, exp_avg_[place], exp_avg_sq_[place], learning_rate, group.weight_decay);
      }
    }
  }

 private:
  void add_states(const parallel::LogicalTensor& tensor) {
    const bool matrix = is_hidden_matrix(tensor);
    momentum_buffer_.push_back(matrix ? add_state("momentum", tensor) : at::Tensor());
    exp_avg_.push_back(matrix ? at::Tensor() : add_state("exp_avg", tensor));
    exp_avg_sq_.push_back(matrix ? at::Tensor() : add_state("exp_avg_sq", tensor));
    rate_.push_back(matrix ? rate_of(tensor.shape) : 0);
  }

  /// torch's adjust_lr_fn: "original" (Jordan et al. 2024), or "match_rms_adamw" (Liu et al. 2025).
  double rate_of(const nn::Shape& shape) const {
    const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
    return match_adamw_ ? 0.2 * std::sqrt(std::max(rows, columns)) : std::sqrt(std::max(1.0, rows / columns));
  }

  /// Averages the gradient into the momentum; the shard of the matrix to orthogonalize, in bf16.
  at::Tensor momentum_update(const at::Tensor& grad, const at::Tensor& momentum) const {
    momentum.lerp_(grad, 1 - momentum_);
    return (nesterov_ ? grad.lerp(momentum, momentum_) : momentum).to(at::kBFloat16);
  }

  /// Collective. Of at most one matrix per worker.
  void orthogonalize(const Trained& trained, const std::vector<size_t>& places) {
    const size_t me = workers_ == 1 ? 0 : static_cast<size_t>(comm_.rank());
    at::Tensor mine;
    for (size_t worker = 0; worker < places.size(); ++worker) {
      parallel::LogicalTensor matrix = trained[places[worker]];
      matrix.value = momentum_update(matrix.grad, momentum_buffer_[places[worker]]);
      const at::Tensor whole = parallel::gather(matrix, comm_);
      if (worker == me) mine = whole;
    }
    if (mine.defined()) mine = orthogonalized(mine, epsilon_, steps_of_iteration_);
    for (size_t worker = 0; worker < places.size(); ++worker) {
      const parallel::LogicalTensor& matrix = trained[places[worker]];
      const at::Tensor result =
          worker == me ? mine : at::empty(matrix.shape, at::TensorOptions(matrix.grad.device()).dtype(at::kBFloat16));
      if (workers_ > 1) comm_.broadcast(result, static_cast<int>(worker));
      parallel::copy_shard(result, matrix, matrix.grad);
    }
  }

  config::TrainingConfig options_;
  dist::Comm& comm_;
  int64_t workers_;  // ranks that share the matrices
  double momentum_, epsilon_;
  bool nesterov_, match_adamw_;
  int64_t steps_of_iteration_;
  std::vector<at::Tensor> momentum_buffer_;       // of matrices
  std::vector<double> rate_;                      // of matrices: multiple of the learning rate
  std::vector<at::Tensor> exp_avg_, exp_avg_sq_;  // of all others
};

}  // namespace

std::unique_ptr<Optimizer> make_muon(const config::TrainingConfig& options, const Trained& trained, dist::Comm& comm) {
  return std::make_unique<Muon>(options, trained, comm);
}

}  // namespace trainer::optim
