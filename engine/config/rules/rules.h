// Rules between options, which a table can't express.
#pragma once

#include <vector>

#include "engine/config/plan/reader.h"

namespace trainer::config {

class Judge;

/// One constraint between options. The id is shown in `check --json` and on the reference page.
struct Rule {
  const char* id;      // "batch-product"
  const char* reason;  // one sentence
  void (*check)(const Config& config, Judge& judge);
};
const std::vector<Rule>& rules();

/// Checks every option that was set: its range, its support in this version, and whether it has an effect.
void check_options(Draft& draft);

/// The same for the options of one section that is translated afterwards: "megatron_lm_config".
void check_section(Draft& draft, const std::string& path);
/// The same for a standalone section, as in `apply`.
void check_section(Draft& draft, const Entries& table, const void* section, const std::string& prefix);

/// True for values that request nothing: an empty value, false, 0, none, and those in `harmless`. If `harmless` has
/// true but not false, false does request something. A group that is disabled requests nothing.
bool asks_nothing(const Node& node, const std::vector<std::string>& harmless);

/// Checks options against each other, and that the required ones are present. A missing one is reported for `file` if
/// it is Accelerate's, for `job_file` if it is ours. `to_run`: see Sources.
void check_rules(Draft& draft, const std::string& file, const std::string& job_file, bool to_run = true);

/// Sets the options whose default depends on others.
void complete(Config& config);

}  // namespace trainer::config
