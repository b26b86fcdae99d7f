#pragma once

#include "engine/dist/bucket_reducer.h"
#include "engine/parallel/parallel_model.h"

namespace trainer::parallel {

/// The whole model on every rank, with gradients summed over ranks (DDP). A single rank does not communicate.
class ReplicatedModel : public ParallelModel {
 public:
  ReplicatedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                  const dist::GradientExchange& exchange = {});

 protected:
  void load_values(const WeightSource& source) override;
  std::vector<LogicalTensor> list_tensors() override;
  /// Whether gradients are summed over ranks.
  virtual bool exchanges_gradients() const { return true; }
  void begin_backward(const at::Tensor& loss, bool last) override;
  void end_backward(bool last) override;

 private:
  dist::GradientExchange exchange_;
  std::unique_ptr<dist::BucketReducer> reducer_;  // null with one rank
};

}  // namespace trainer::parallel
