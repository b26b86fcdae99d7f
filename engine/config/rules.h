// What one option means for another: all that a table can't say.
#pragma once

#include "engine/config/reader.h"

namespace trainer::config {

/// Turns other programs' keys and older spellings into our options.
void translate_foreign_keys(Draft& draft);

/// Holds every option that was set against its range, against what this version can do, and against having an effect.
void check_options(Draft& draft);

/// Holds options against each other, and asks for the required ones. `source` is the file that lacks them.
void check_rules(Draft& draft, const std::string& source);

/// Sets the options whose default depends on others.
void complete(Config& config);

}  // namespace trainer::config
