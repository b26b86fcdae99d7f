// Token offsets without the leading spaces of byte-level tokens.
#pragma once

#include "data/tokenizers/post_processors/post_processor.h"

namespace trainer::data {

/// Excludes the spaces at a token's ends from its offsets. `add_prefix_space`: the space at the start of the text was
/// added.
void trim_offsets(std::vector<PlacedToken>& tokens, std::string_view original, bool add_prefix_space);

}  // namespace trainer::data
