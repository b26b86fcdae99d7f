// Compares the ids of two tokenizers.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Encodes a fixed set of texts made of the pieces of `one`, the tokens `special`, spaces, line ends and characters
/// that normalization changes. Describes the first text with different ids; "" when there is none. `any_order`: ignore
/// the order of the ids.
std::string first_difference(const Tokenizer& one, const Tokenizer& other, const std::vector<std::string>& special,
                             bool any_order);

}  // namespace trainer::data
