// Options of the stage Metaspace, which is a pre-tokenizer and a decoder.
#pragma once

#include <string>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// Which pieces get a space in front: each, the one at the start of the text, or none.
enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

/// What cannot be read is noted in `view`'s problems. Older files say `add_prefix_space` for the scheme.
MetaspaceOptions read_metaspace_options(const JsonView& view);

}  // namespace trainer::data
