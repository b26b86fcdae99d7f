#include "data/tokenizers/metaspace_options.h"

#include "data/tokenizers/text/characters.h"
#include "engine/base/utf8.h"

namespace trainer::data {

MetaspaceOptions read_metaspace_options(const JsonView& view) {
  MetaspaceOptions options;
  options.replacement.clear();
  append_character(options.replacement, view.at("replacement").character());
  if (JsonView scheme = view.at("prepend_scheme"); !scheme.is_null()) {
    options.prepend = scheme
                          .choice<PrependScheme>({{"always", PrependScheme::kAlways},
                                                  {"first", PrependScheme::kFirst},
                                                  {"never", PrependScheme::kNever}})
                          .value_or(PrependScheme::kAlways);
  }
  if (!view.at("add_prefix_space").flag(true)) options.prepend = PrependScheme::kNever;
  options.split = view.at("split").flag(true);
  return options;
}

}  // namespace trainer::data
