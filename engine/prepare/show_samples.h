// `trainer tokenize --show`: samples as the model gets them, for people.
#pragma once

#include <cstdint>
#include <string>

#include "engine/prepare/inputs.h"

namespace trainer::prepare {

/// The first `count` training samples, decoded from their tokens: source and target of a pair, the text of a causal
/// sample, text and class for classification. On a `terminal`, text that is not learned is dimmed; elsewhere learned
/// text is enclosed in ⟦ and ⟧.
std::string show_samples(const Inputs& inputs, int64_t count, bool terminal);

}  // namespace trainer::prepare
