// What one option means for another: all that a table can't say.
#pragma once

#include <vector>

#include "engine/config/reader.h"

namespace trainer::config {

class Judge;

/// One thing that must hold between options. The id is shown in `check --json` and on the reference page.
struct Rule {
  const char* id;      // "batch-product"
  const char* reason;  // one sentence
  void (*check)(const Config& config, Judge& judge);
};
const std::vector<Rule>& rules();

/// Holds every option that was set against its range, against what this version can do, and against having an effect.
void check_options(Draft& draft);

/// The same for the options of one section, which is then translated away: "megatron_lm_config".
void check_section(Draft& draft, const std::string& path);
/// The same for a section that stands alone, as in `apply`.
void check_section(Draft& draft, const Entries& table, const void* section, const std::string& prefix);

/// Holds options against each other, and asks for the required ones. `file` and `job_file` are the ones that
/// lack them: what is Accelerate's, what is ours. `to_run`: see Sources.
void check_rules(Draft& draft, const std::string& file, const std::string& job_file, bool to_run = true);

/// Sets the options whose default depends on others.
void complete(Config& config);

}  // namespace trainer::config
