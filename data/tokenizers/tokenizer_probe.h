// Whether two tokenizers give the same ids.
#pragma once

#include <string>
#include <vector>

#include "data/tokenizers/tokenizer.h"

namespace trainer::data {

/// Encodes texts made of the pieces of `one`, the tokens `special`, spaces, line ends and characters that normalization
/// changes, always the same texts. Says for which `other` gives other ids; "" when there was none. `any_order`: the
/// same ids in another order count as the same.
std::string first_difference(const Tokenizer& one, const Tokenizer& other, const std::vector<std::string>& special,
                             bool any_order);

}  // namespace trainer::data
