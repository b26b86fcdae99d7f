// Places of tokens without the spaces that byte-level tokens begin with.
#pragma once

#include "data/tokenizers/post_processors/post_processor.h"

namespace trainer::data {

/// Takes the spaces at a token's ends out of its place. `add_prefix_space`: one at the start of the text is not there.
void trim_offsets(std::vector<PlacedToken>& tokens, std::string_view original, bool add_prefix_space);

}  // namespace trainer::data
