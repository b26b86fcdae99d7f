// Names of classes, and their numbers.
#pragma once

#include <string>
#include <vector>

#include "data/token_store.h"

namespace trainer::data {

/// True for "LABEL_0", "LABEL_1", …: what transformers writes where nobody gave names.
bool are_placeholders(const std::vector<std::string>& labels);

/// How the classes in the data are put in order: as numbers where all names are integers (10 after 9), or always as
/// text, as a run that an earlier version began goes on.
enum class LabelOrder { kIntegersAsNumbers, kAsText };

/// The classes of a run: those of the configuration, else `settled`, of the checkpoint or the model, else those in the
/// stores in `order`.
std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& settled,
                                       const std::vector<const TokenStore*>& stores,
                                       LabelOrder order = LabelOrder::kIntegersAsNumbers);

/// The number of each label of `store`. Errors: InputError with file and line for a label that is none of `labels`.
std::vector<int32_t> class_numbers(const std::vector<std::string>& labels, const TokenStore& store);

/// Labels that never occur in `store`, as a note; "" when all do.
std::string missing_labels(const std::vector<std::string>& labels, const TokenStore& store);

}  // namespace trainer::data
