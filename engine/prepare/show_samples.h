// `trainer tokenize --show`: samples as a model is given them, for people.
#pragma once

#include <cstdint>
#include <string>

#include "engine/prepare/inputs.h"

namespace trainer::prepare {

/// The first `count` training samples, decoded from their tokens: of a pair source and target, of a causal sample its
/// text, of a text to classify the text and its class. What is not learnt is dimmed where `terminal`; elsewhere what is
/// learnt stands between ⟦ and ⟧.
std::string show_samples(const Inputs& inputs, int64_t count, bool terminal);

}  // namespace trainer::prepare
