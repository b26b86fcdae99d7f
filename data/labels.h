// Names of classes, and their numbers.
#pragma once

#include <string>
#include <vector>

#include "data/token_store.h"

namespace trainer::data {

/// The classes of a run: those of the configuration, else of the model, else those in the stores, sorted.
std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& of_model,
                                       const std::vector<const TokenStore*>& stores);

/// The number of each label of `store`. Errors: InputError with file and line for a label that is none of `labels`.
std::vector<int32_t> class_numbers(const std::vector<std::string>& labels, const TokenStore& store);

/// Labels that never occur in `store`, as a note; "" when all do.
std::string missing_labels(const std::vector<std::string>& labels, const TokenStore& store);

}  // namespace trainer::data
