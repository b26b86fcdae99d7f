// Detects the format and columns of a data file that no configuration describes yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

struct SourceDescription {
  config::DataFormat format = config::DataFormat::kAuto;  // never auto in a result
  bool by_ending = false;                                 // `format: auto` gives the same format
  std::string delimiter;                                  // of delimited files
  std::string encoding = "utf-8";
  std::vector<std::string> columns;  // present in every record, in the first one's order; empty for images and tokens
  std::vector<std::string> names;    // suggested column names for a file without a header; else empty
  config::Dialogue dialogue = config::Dialogue::kNone;  // the first record's dialogue format, for causal_lm
  std::string messages;                                 // the column with the turns, if it isn't the default one
  std::vector<std::string> labels;                      // of the column `target`, for sequence_classification; sorted
  int64_t features = 0, classes = 0;                    // of images
};

/// Reads the first records of `config.train`. Options that are set are used as they are; `format: auto` is detected
/// from the file extensions, else from the content. Errors: InputError and ConfigError, as for a run.
SourceDescription describe_source(const config::DataConfig& config);

}  // namespace trainer::data
