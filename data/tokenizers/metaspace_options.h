// Options of Metaspace, which is a pre-tokenizer and a decoder.
#pragma once

#include <string>

#include "data/tokenizers/json_view.h"

namespace trainer::data {

/// Which pieces get a leading space: all, the one at the start of the text, or none.
enum class PrependScheme { kAlways, kFirst, kNever };

struct MetaspaceOptions {
  std::string replacement = "\u2581";
  PrependScheme prepend = PrependScheme::kAlways;
  bool split = true;
};

/// Problems are recorded in `view`. Older files have `add_prefix_space` instead of the scheme.
MetaspaceOptions read_metaspace_options(const JsonView& view);

}  // namespace trainer::data
