// What the wizard needs to know about a tokenizer and a file of samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace trainer::config {

struct TokenizerDescription {
  std::string error;  // why it can't be used; then nothing else is set
  int64_t size = 0;
  bool chat_template = false;          // whether it has its own
  std::vector<std::string> templates;  // built-in ones
};

struct DataDescription {
  std::string error;      // why it can't be read; then nothing else is set
  std::string format;     // by data.train.format's names; never auto
  bool by_ending = true;  // `auto` resolves to the same format
  std::string delimiter, encoding;
  std::vector<std::string> columns;  // that every record has
  std::vector<std::string> names;    // suggested, for columns that the file has no names for
  std::string dialogue = "none";     // by data.dialogue's names
  std::string messages;
  std::vector<std::string> labels;    // in the column data.target, of sequence_classification
  int64_t features = 0, classes = 0;  // of images

  /// "csv, columns: text, label"
  std::string text() const;
};

struct SamplesDescription {
  std::string error;               // why there are none; then nothing else is set
  std::vector<std::string> texts;  // what is learned is between ⟦ and ⟧
};

/// Parse the output of `trainer-prepare describe-…`; nullopt if it isn't that.
std::optional<TokenizerDescription> parse_tokenizer(const std::string& json);
std::optional<DataDescription> parse_data(const std::string& json);
std::optional<SamplesDescription> parse_samples(const std::string& json);

}  // namespace trainer::config
