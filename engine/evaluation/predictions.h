// The model's predictions next to the labels.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace trainer::evaluation {

struct Prediction {
  std::string input, prediction, label;

  bool correct() const { return prediction == label; }
};

/// A table, one prediction per line, that fits into `width` columns (14 or more): input, prediction, label and, if they
/// are `scored`, a mark before each line.
std::string prediction_table(const std::vector<Prediction>& predictions, size_t width, bool scored);

/// Publishes the file with one JSON object per line: `input`, `prediction`, `label`. Bytes that are not UTF-8 become
/// U+FFFD. Errors: MachineError; an older file is left unchanged then.
void write_predictions(const std::filesystem::path& path, const std::vector<Prediction>& predictions);

}  // namespace trainer::evaluation
