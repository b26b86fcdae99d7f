#include "models/mlp/config.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "models/class_names.h"

namespace trainer::models::mlp {
namespace {

constexpr int64_t kDigits = 10;

void read_hidden_sizes(nn::ConfigReader& reader, MlpConfig& c) {
  if (!reader.has("hidden_sizes")) return;
  const auto& sizes = reader.value("hidden_sizes");
  const auto is_width = [](const nlohmann::json& size) {
    return size.is_number_unsigned() && size.get<uint64_t>() >= 1 && size.get<uint64_t>() <= uint64_t{1} << 31;
  };
  if (!sizes.is_array() || !std::all_of(sizes.begin(), sizes.end(), is_width))
    return reader.wrong("hidden_sizes", "a list of integers of at least 1");
  c.hidden_sizes = sizes.get<std::vector<int64_t>>();
}

/// Without class names, the classes are the ten digits.
void read_labels(nn::ConfigReader& reader, const BuildRequest& request, MlpConfig& c) {
  const bool named = !request.labels.empty() || reader.has("id2label") || reader.has("num_labels");
  if (named)
    c.labels = read_class_names(reader, request);
  else
    for (int64_t digit = 0; digit < kDigits; ++digit) c.labels.push_back(std::to_string(digit));
}

}  // namespace

MlpConfig parse_config(const BuildRequest& request) {
  nn::ConfigReader reader(request.config_json, request.origin, "the MLP", request.strict);
  MlpConfig c;
  reader.number("input_size", 1, c.input_size);
  read_hidden_sizes(reader, c);
  read_labels(reader, request, c);
  reader.number("dropout", 0.0, 0.99, c.dropout);
  reader.activation("activation", c.activation, c.function);
  reader.skip_common();
  reader.finish();
  return c;
}

std::string config_json(const MlpConfig& c) {
  nlohmann::json json = {{"architectures", {"Mlp"}},   {"model_type", "mlp"},
                         {"input_size", c.input_size}, {"hidden_sizes", c.hidden_sizes},
                         {"activation", c.activation}, {"dropout", c.dropout},
                         {"dtype", "float32"}};
  write_class_names(json, c.labels);
  return json.dump(2) + "\n";
}

}  // namespace trainer::models::mlp
