#include "models/class_names.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trainer::models {

std::vector<std::string> read_class_names(nn::ConfigReader& reader, const BuildRequest& request) {
  std::string problem_type = "single_label_classification";
  reader.text("problem_type", problem_type);
  if (problem_type != "single_label_classification")
    reader.problem(fmt::format(
        "problem_type {} is not supported; only single_label_classification is: one class per sample", problem_type));
  std::vector<std::string> names = request.labels.empty() ? reader.class_names() : request.labels;
  if (names.size() < 2)
    reader.problem(
        fmt::format("a classifier needs at least two classes; has {} "
                    "(transformers treats a single class as regression)",
                    names.size()));
  return names;
}

void write_class_names(nlohmann::json& config, const std::vector<std::string>& names) {
  for (size_t i = 0; i < names.size(); ++i) {
    config["id2label"][std::to_string(i)] = names[i];
    config["label2id"][names[i]] = i;
  }
}

}  // namespace trainer::models
