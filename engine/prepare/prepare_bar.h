#pragma once

#include <cstdint>
#include <string>

#include "engine/base/passing_line.h"

namespace trainer::prepare {

/// Shows the progress of tokenization.
class PrepareBar {
 public:
  /// `part` of the files has been read into `samples` samples.
  void show(double part, int64_t samples);

 private:
  PassingLine line_;
};

/// "tokenizing  43 %  120k samples  8.1k per second  12s left".
std::string prepare_line(double part, int64_t samples, double seconds);

}  // namespace trainer::prepare
