// What happens to every key and flag of the programs that people come from.
#pragma once

#include <string>

namespace trainer::cli {

/// Markdown, from the tables of options and flags; docs/other_programs_keys.md holds it. axolotl's and LLaMA-Factory's
/// keys are in config::conversion_tables().
std::string foreign_tables();

}  // namespace trainer::cli
