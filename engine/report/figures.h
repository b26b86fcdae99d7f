// The figures at the top of a report.
#pragma once

#include <string>
#include <vector>

#include "engine/report/run_folder.h"

namespace trainer::report {

struct Figure {
  std::string name, value;
};

/// What is known of a run: updates, epochs, last and best loss, other metrics, tokens, speed, memory, checkpoints.
std::vector<Figure> figures_of(const RunFolder& run);

/// One event in words: "rank 3 is slow: 2.1 times the others".
std::string event_text(const Record& event);

}  // namespace trainer::report
