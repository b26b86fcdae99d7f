#include "engine/evaluation/predictions.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "engine/base/files.h"
#include "engine/base/terminal_text.h"

namespace trainer::evaluation {
namespace {

constexpr size_t kMark = 2;     // "✓ "
constexpr size_t kBetween = 2;  // columns between two fields

struct Widths {
  size_t input, prediction, label;
};

/// Prediction and label get the width they need, up to a quarter each; the input gets the rest.
Widths widths_for(const std::vector<Prediction>& rows, size_t width) {
  Widths needed{display_width("input"), display_width("prediction"), display_width("label")};
  for (const Prediction& row : rows) {
    needed.input = std::max(needed.input, display_width(row.input));
    needed.prediction = std::max(needed.prediction, display_width(row.prediction));
    needed.label = std::max(needed.label, display_width(row.label));
  }
  const size_t quarter = std::max<size_t>(width / 4, 1);
  const size_t prediction = std::min(needed.prediction, quarter);
  const size_t label = std::min(needed.label, quarter);
  const size_t taken = kMark + prediction + label + 2 * kBetween;
  return {std::min(needed.input, width > taken ? width - taken : 1), prediction, label};
}

std::string line(const char* mark, const Prediction& row, const Widths& widths) {
  const std::string gap(kBetween, ' ');
  return fmt::format("{} {}{}{}{}{}\n", mark, fitted(row.input, widths.input), gap,
                     fitted(row.prediction, widths.prediction), gap, truncated(row.label, widths.label));
}

}  // namespace

std::string prediction_table(const std::vector<Prediction>& predictions, size_t width, bool scored) {
  std::vector<Prediction> rows;
  for (const Prediction& row : predictions)
    rows.push_back({one_line(row.input), one_line(row.prediction), one_line(row.label)});
  const Widths widths = widths_for(rows, width);
  std::string table = line(" ", {"input", "prediction", "label"}, widths);
  // Judge by the original texts: `one_line` may make different texts look the same.
  for (size_t i = 0; i < rows.size(); ++i)
    table += line(!scored ? " " : (predictions[i].correct() ? "✓" : "✗"), rows[i], widths);
  return table;
}

void write_predictions(const std::filesystem::path& path, const std::vector<Prediction>& predictions) {
  std::string lines;
  for (const Prediction& row : predictions) {
    nlohmann::ordered_json json;
    json["input"] = row.input;
    json["prediction"] = row.prediction;
    json["label"] = row.label;
    lines += json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  publish_file(path, lines);
}

}  // namespace trainer::evaluation
