// What the wizard needs to know about a model.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trainer::config {

struct ModelDescription {
  struct LinearLayers {
    std::string name;  // "q"
    int64_t count = 0;
    int64_t out = 0, in = 0;
  };

  std::string error;  // why this build can't train it; then nothing else is set
  std::string class_name;
  std::string family;              // "llama"; "" if unknown
  std::vector<std::string> tasks;  // that the family supports; empty if unknown
  int64_t parameters = 0;
  std::vector<std::pair<std::string, int64_t>> blocks;  // class and count
  std::vector<std::string> lora_targets;                // the defaults
  std::vector<LinearLayers> linear_layers;
  std::vector<std::string> classes;    // of its modules; empty if unknown
  std::vector<std::string> labels;     // of a model that already has classes; else empty
  std::vector<std::string> adaptable;  // names of layers that can have an adapter; empty if unknown
  int64_t vocabulary = 0;              // 0: none, or unknown
  int64_t positions = 0;               // maximum tokens of a sample; 0: unlimited, or unknown

  /// "BertForSequenceClassification, 109.5 million parameters, 12 x BertLayer; classes: negative, positive"
  std::string text() const;
  /// "q 36 x [768, 768], …"
  std::string linear_text() const;
  /// "T5Block"
  std::string block_classes() const;
};

/// Parses the output of `trainer-worker describe-model`; nullopt if it isn't that.
std::optional<ModelDescription> parse_description(const std::string& json);

}  // namespace trainer::config
