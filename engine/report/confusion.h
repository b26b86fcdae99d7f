// Which class was predicted instead of which.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/report/run_folder.h"

namespace trainer::report {

/// counts[i][j]: samples of class `labels[i]` for which `answers[j]` was predicted. `answers` are the labels, and at
/// the end "other" if anything else was predicted.
struct Confusion {
  std::vector<std::string> labels, answers;
  std::vector<std::vector<int64_t>> counts;
};

/// Of a classifier with these classes; empty if they are more than 20.
Confusion confusion_of(const std::vector<Prediction>& predictions, const std::vector<std::string>& classes);
/// Empty unless the labels are few and repeat, as classes do: at most 20, and three samples for each on average.
Confusion confusion_of(const std::vector<Prediction>& predictions);

/// A table for the terminal, a line for each label; "" for an empty one.
std::string confusion_text(const Confusion& confusion);

}  // namespace trainer::report
