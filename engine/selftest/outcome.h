// What training a setting gave, and how far that is from what it should have given.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/samples.h"
#include "engine/dist/comm.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

struct Outcome {
  std::vector<double> losses;                   // of each update
  std::map<std::string, at::Tensor> gradients;  // of the first update, whole, by Hugging Face's names
};

/// Collective. Ten updates of the plan's model on `samples`, from the seed, with dropout. `comm` has the plan's number
/// of ranks.
Outcome train(const config::Plan& plan, const data::Samples& samples, dist::Comm& comm);
/// The same of a setting's plan.
Outcome train(const Setting& setting, const data::Samples& samples, dist::Comm& comm);

/// Relative differences, and how large they may be (design: fp32 against fp32 in another order of sums; bf16 within its
/// rounding).
struct Difference {
  double first_loss = 0, gradients = 0, losses = 0;
  std::string worst_gradient;  // its name
  bool bf16 = false;
  double gradient_tolerance = 1e-6;

  bool fits() const;
};
Difference difference(const Outcome& found, const Outcome& reference, bool bf16, double gradient_tolerance = 1e-6);

}  // namespace trainer::selftest
