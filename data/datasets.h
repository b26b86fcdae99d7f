// The samples of a run, as its configuration describes them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/labels.h"
#include "data/prepare.h"
#include "data/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// What a run learns from and what it is measured on.
struct Datasets {
  std::shared_ptr<const Samples> train;       // never empty
  std::shared_ptr<const Samples> validation;  // empty without `data.validation`; keeps its texts
  std::vector<std::string> labels;            // classification: names of the classes, in the order of their numbers
  std::vector<std::string> notes;             // what people should know about the data: records left out, say
};

struct DatasetsRequest {
  const config::DataConfig& config;
  int64_t seed = 0;
  int64_t train_samples = 0;                  // how many a run of max_steps takes; 0: it counts in epochs
  std::vector<std::string> settled_labels{};  // classification: the classes of the checkpoint or of the model
  LabelOrder label_order = LabelOrder::kIntegersAsNumbers;  // where nothing settles them
  PrepareProgress progress{};
};

/// Opens all samples, tokenising them first where that was not done before (prepare.h). Which records are for
/// validation is a pure function of the seed and their number.
/// `tokenizer` may be null for images. Errors: InputError with file and line for data that can't be used, or when
/// nothing is left to train on; ConfigError; MachineError.
Datasets open_datasets(const DatasetsRequest& request, const Tokenizer* tokenizer);

/// `fraction` of `records` records, rounded to the nearest whole number.
int64_t validation_count(int64_t records, double fraction);

/// True for exactly validation_count of the indices [0, records).
bool is_validation(int64_t seed, int64_t record, int64_t records, double fraction);

/// The most frequent target text, and its share of all samples: what always giving that answer would score.
struct MajorityClass {
  std::string label;
  double share = 0.0;
};
/// Nothing when there are no samples, or no texts of them.
MajorityClass majority_class(const Samples& samples);

}  // namespace trainer::data
