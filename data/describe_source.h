// What a file of samples holds, where no configuration says it yet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/config/sections.h"

namespace trainer::data {

struct SourceDescription {
  config::DataFormat format = config::DataFormat::kAuto;  // never auto once described
  bool by_ending = false;                                 // `format: auto` comes to the same
  std::string delimiter;                                  // of delimited files
  std::string encoding = "utf-8";
  std::vector<std::string> columns;  // that every record has, in the order of the first one; none of images and tokens
  std::vector<std::string> names;    // suggested for the columns of a file without a header; else empty
  config::Dialogue dialogue = config::Dialogue::kNone;  // what the first record holds, for causal_lm
  std::string messages;                                 // the column with its turns, where it isn't the usual one
  std::vector<std::string> labels;                      // in the column `target`, for sequence_classification; sorted
  int64_t features = 0, classes = 0;                    // of images
};

/// Reads the first records of `config.train`, whose options count where they are given: `format: auto` is found out by
/// the endings of the names, else by what stands in the files.
/// Errors: InputError and ConfigError, as for a run.
SourceDescription describe_source(const config::DataConfig& config);

}  // namespace trainer::data
