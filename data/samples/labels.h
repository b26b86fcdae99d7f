// Class names and class indices.
#pragma once

#include <string>
#include <vector>

#include "data/cache/token_cache.h"

namespace trainer::data {

/// True for "LABEL_0", "LABEL_1", …: transformers' placeholders for unnamed classes.
bool are_placeholders(const std::vector<std::string>& labels);

/// How the classes found in the data are sorted: as numbers if all names are integers (10 after 9), or always as text,
/// for resuming a run that an earlier version started.
enum class LabelOrder { kIntegersAsNumbers, kAsText };

using Labels = std::vector<CachedLabel>;  // of one token cache

/// The classes of a run: those of the configuration, else `settled` (from the checkpoint or the model), else `declared`
/// by the data, else those in the token caches, sorted by `order`.
std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& settled, const std::vector<std::string>& declared,
                                       const std::vector<Labels>& caches,
                                       LabelOrder order = LabelOrder::kIntegersAsNumbers);

/// `labels` by the names that the data declares for their classes, if they are the numbers of these; otherwise as they
/// are. `chosen`: the classes of the run, which keep labels as they are if they are all among them and aren't the
/// declared ones: an earlier version took the numbers for names.
Labels named_labels(Labels labels, const std::vector<std::string>& declared, const std::vector<std::string>& chosen);

/// The class index of each label. Errors: InputError with file and line for a label not in `classes`.
std::vector<int32_t> class_numbers(const std::vector<std::string>& classes, const Labels& labels);

/// A note that lists the classes that never occur; "" when all do.
std::string missing_labels(const std::vector<std::string>& classes, const Labels& labels);

}  // namespace trainer::data
