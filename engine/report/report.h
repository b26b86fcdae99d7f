// report.html: one page with a run's curves, figures, configuration and predictions, or with several runs side by side.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "engine/report/run_folder.h"

namespace trainer::report {

/// The page, complete in itself: it loads nothing, and everything in it that comes from data or configuration is
/// escaped. `runs`: at least one; of several, the page shows the options that differ.
/// `is_live`: the page is served, and loads itself again while a run hasn't ended.
std::string report_page(const std::vector<RunFolder>& runs, bool is_live = false);

/// Writes the page of the run in `output_dir` to output_dir/report.html, atomically. Errors: InputError when no update
/// has been logged, MachineError.
void write_report(const std::filesystem::path& output_dir);

}  // namespace trainer::report
