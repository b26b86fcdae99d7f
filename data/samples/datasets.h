// The datasets of a run, opened from its configuration.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/cache/prepare.h"
#include "data/samples/labels.h"
#include "data/samples/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// The training and validation samples of a run.
struct Datasets {
  std::shared_ptr<const Samples> train;       // never empty
  std::shared_ptr<const Samples> validation;  // empty without `data.validation`; stores its texts
  std::vector<std::string> labels;            // classification: class names by class index
  std::vector<std::string> notes;             // notes about the data for the user, such as skipped records
};

struct DatasetsRequest {
  const config::DataConfig& config;
  int64_t seed = 0;
  int64_t train_samples = 0;                  // samples that a run of max_steps consumes; 0: the run counts epochs
  std::vector<std::string> settled_labels{};  // classification: the classes of the checkpoint or of the model
  LabelOrder label_order = LabelOrder::kIntegersAsNumbers;  // when nothing settles the classes
  PrepareProgress progress{};
};

/// Opens all samples; those that are not in the cache are tokenized first (prepare.h). Which records are held out for
/// validation is a pure function of the seed, the record's index and the number of records.
/// `tokenizer` may be null for images. Errors: InputError with file and line for invalid data, or when nothing is left
/// to train on; ConfigError; MachineError.
Datasets open_datasets(const DatasetsRequest& request, const Tokenizer* tokenizer);

/// `fraction` of `records` records, rounded to the nearest whole number.
int64_t validation_count(int64_t records, double fraction);

/// True for exactly validation_count of the indices [0, records).
bool is_validation(int64_t seed, int64_t record, int64_t records, double fraction);

/// The most frequent target text and its fraction of all samples: the accuracy of always predicting it.
struct MajorityClass {
  std::string label;
  double share = 0.0;
};
/// Empty when there are no samples, or their texts are not stored.
MajorityClass majority_class(const Samples& samples);

}  // namespace trainer::data
