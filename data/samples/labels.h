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

/// The classes of a run: those of the configuration, else `settled` (from the checkpoint or the model), else those in
/// the token caches, sorted by `order`.
std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& settled,
                                       const std::vector<const TokenCache*>& stores,
                                       LabelOrder order = LabelOrder::kIntegersAsNumbers);

/// The class index of each label of `store`. Errors: InputError with file and line for a label not in `labels`.
std::vector<int32_t> class_numbers(const std::vector<std::string>& labels, const TokenCache& store);

/// A note that lists the labels that never occur in `store`; "" when all do.
std::string missing_labels(const std::vector<std::string>& labels, const TokenCache& store);

}  // namespace trainer::data
