// The results of training a setting, and their differences from the expected results.
#pragma once

#include <map>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "data/samples/samples.h"
#include "engine/dist/comm.h"
#include "engine/selftest/setting.h"

namespace trainer::selftest {

struct Outcome {
  std::vector<double> losses;                   // of each update
  std::map<std::string, at::Tensor> gradients;  // of the first update, whole, by Hugging Face's names
};

/// Collective. Trains the plan's model for ten updates on `samples`, from the seed, with dropout. `comm` must have the
/// plan's number of ranks.
Outcome train(const config::Plan& plan, const data::Samples& samples, dist::Comm& comm);
/// The same for a setting's plan.
Outcome train(const Setting& setting, const data::Samples& samples, dist::Comm& comm);

/// Relative differences, and their tolerances (fp32 against fp32 with another summation order; bf16 within its
/// rounding).
struct Difference {
  double first_loss = 0, gradients = 0, losses = 0;
  std::string worst_gradient;  // its parameter's name
  bool bf16 = false;
  double gradient_tolerance = 1e-6;
  double rounding = 0;  // bf16: how far one rank's gradients in bf16 are from those in fp32

  bool fits() const;
};
Difference difference(const Outcome& found, const Outcome& reference, bool bf16, double gradient_tolerance = 1e-6);

}  // namespace trainer::selftest
