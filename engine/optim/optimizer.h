// Optimisers over this rank's pieces of the trained parameters.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/sections.h"
#include "engine/parallel/logical_tensor.h"

namespace trainer::optim {

/// One piece of optimiser state, laid out like the piece of the parameter it belongs to.
struct StateTensor {
  std::string kind;       // "exp_avg", "exp_avg_sq", "momentum"
  std::string parameter;  // Hugging Face's name
  at::Tensor value;       // [end - begin] fp32
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Updates the trained values in place from their gradients.
  void step(const std::vector<parallel::LogicalTensor>& tensors, double learning_rate);

  /// All state, in the order of the parameters; the values are the optimiser's own, so that loading copies into them.
  virtual std::vector<StateTensor> state() = 0;
  /// What checkpoints call it ("adamw"): state of one optimiser is not another's.
  virtual const char* name() const = 0;
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

 protected:
  /// Tensors that are updated alike.
  struct Group {
    std::vector<at::Tensor> values, grads;
    double weight_decay = 0;
    std::vector<size_t> places;  // of each tensor among the trained ones
  };
  virtual void update(Group& group, double learning_rate) = 0;

  explicit Optimizer(double weight_decay) : weight_decay_(weight_decay) {}

 private:
  double weight_decay_;
  int64_t steps_ = 0;
};

/// The optimiser of a run, with zero state for the trained ones among `tensors`.
std::unique_ptr<Optimizer> make_optimizer(const config::TrainingConfig& options,
                                          const std::vector<parallel::LogicalTensor>& tensors);

/// Whether weight decay applies, by the rule of the Hugging Face Trainer: not to biases and norms, told by their names.
/// (T5's relative_attention_bias counts as a bias there, and so here.)
bool decays(const std::string& parameter_name);

}  // namespace trainer::optim
