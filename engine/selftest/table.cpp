#include "engine/selftest/table.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

namespace trainer::selftest {
namespace {

struct Cell {
  double worst = 0;
  bool fits = true;
};

std::string column_of(const Result& result) {
  return result.setting.model.name + (result.setting.lora ? " LoRA" : "");
}

std::string row_of(const Result& result) {
  return result.setting.strategy.name + (result.setting.bf16 ? " bf16" : "");
}

/// Appends `item` if missing.
void add_once(std::vector<std::string>& list, const std::string& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

std::string misfit_line(const Result& result) {
  const Difference& d = result.difference;
  return fmt::format("DIFFERS  {}: first loss {:.1e}, gradients {:.1e} ({}{}), ten losses {:.1e}\n",
                     result.setting.name(), d.first_loss, d.gradients, d.worst_gradient,
                     d.bf16 ? fmt::format("; {:.1e} by rounding on one rank", d.rounding) : "", d.losses);
}

}  // namespace

std::string table(const std::vector<Result>& results) {
  std::vector<std::string> rows, columns;
  std::map<std::pair<std::string, std::string>, Cell> cells;
  std::string misfits;
  size_t differ = 0;
  for (const Result& result : results) {
    add_once(rows, row_of(result));
    add_once(columns, column_of(result));
    Cell& cell = cells[{row_of(result), column_of(result)}];
    const Difference& d = result.difference;
    cell.worst = std::max({cell.worst, d.first_loss, d.gradients, d.losses});
    cell.fits = cell.fits && d.fits();
    if (d.fits()) continue;
    misfits += misfit_line(result);
    ++differ;
  }
  size_t width = 0;
  for (const std::string& row : rows) width = std::max(width, row.size());
  std::string text = fmt::format("{:{}}", "", width);
  for (const std::string& column : columns) text += fmt::format("  {:>10}", column);
  for (const std::string& row : rows) {
    text += fmt::format("\n{:{}}", row, width);
    for (const std::string& column : columns) {
      const auto cell = cells.find({row, column});
      text += cell == cells.end() ? fmt::format("  {:>10}", "")
                                  : fmt::format("  {:>9.1e}{}", cell->second.worst, cell->second.fits ? " " : "!");
    }
  }
  text += fmt::format("\n\n{}", misfits);
  text += differ == 0
              ? fmt::format(
                    "All {} cases match the results of one rank (largest relative difference of losses "
                    "and gradients shown; allowed: 1e-6 for the first loss and gradients (1e-5 for gradients "
                    "of random sizes), 1e-5 for ten "
                    "losses; in 16 bits 2e-2, of gradients also five times what rounding makes of one rank's).\n",
                    results.size())
              : fmt::format("{} of {} cases do not match the results of one rank.\n", differ, results.size());
  return text;
}

}  // namespace trainer::selftest
