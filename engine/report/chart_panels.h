// The charts of a report: their places in the page, and their data for page.js.
#pragma once

#include <string>
#include <vector>

#include "engine/report/curves.h"
#include "engine/report/run_folder.h"

namespace trainer::report {

/// HTML; a note if the program was built without Chart.js.
std::string chart_panels(const std::vector<Chart>& charts);
/// HTML: explains the marks that the curves of one run have. "" without marks.
std::string legend_of_marks(const RunFolder& run);
std::string histogram_panels(const std::vector<Histogram>& histograms);

/// JSON for the inside of a <script> element: {runs, charts: [{title, unit, is_stacked, curves: [{name, run, is_second,
/// points}]}], histograms: [{title, labels, counts}], marks: [{step, event}], which are those of a single run}.
std::string script_data(const std::vector<RunFolder>& runs, const std::vector<Chart>& charts,
                        const std::vector<Histogram>& histograms);

}  // namespace trainer::report
