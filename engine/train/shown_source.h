// Progress while weights are loaded.
#pragma once

#include "engine/base/passing_line.h"
#include "engine/parallel/weight_source.h"
#include "models/model.h"

namespace trainer::train {

/// Passes on the values of `source`, which must outlive it, and shows how far a rank has come. By weights, not by what
/// it reads of them: a rank may need only its slice of each.
class ShownSource : public parallel::WeightSource {
 public:
  ShownSource(const parallel::WeightSource& source, models::Model& model);

  nn::Storage storage(const nn::Parameter& parameter) const override { return source_.storage(parameter); }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;
  InPlace in_place(const nn::Parameter& parameter) const override;

 private:
  void show(const nn::Parameter& parameter) const;

  const parallel::WeightSource& source_;
  int64_t all_ = 0;  // bytes as stored
  mutable int64_t begun_ = 0;
  mutable const nn::Parameter* last_ = nullptr;
  mutable PassingLine line_;
};

/// "loading the weights  43 %  1.2 GiB of 2.8 GiB".
std::string loading_line(int64_t bytes, int64_t all);

}  // namespace trainer::train
