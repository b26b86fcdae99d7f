// `trainer tokenize --show`: samples as the model gets them, for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/prepare/inputs.h"

namespace trainer::prepare {

/// The first `count` training samples, decoded from their tokens: source and target of a pair, the text of a causal
/// sample, text and class for classification. On a `terminal`, text that is not learned is dimmed; elsewhere learned
/// text is enclosed in ⟦ and ⟧.
std::string show_samples(const Inputs& inputs, int64_t count, bool terminal);

/// The same for the wizard: each sample as a paragraph, "12 tokens, 3 learned: …", with learned text in ⟦ and ⟧. The
/// middle of long parts is left out.
std::vector<std::string> sample_excerpts(const Inputs& inputs, int64_t count);

}  // namespace trainer::prepare
