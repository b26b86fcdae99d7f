#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "engine/selftest/resume.h"
#include "engine/selftest/saved_run.h"

namespace trainer::selftest {
namespace {

/// The index of `item` in `list`; appends it if missing.
size_t place_in(std::vector<std::string>& list, const std::string& item) {
  const auto found = std::find(list.begin(), list.end(), item);
  if (found == list.end()) list.push_back(item);
  return static_cast<size_t>(std::find(list.begin(), list.end(), item) - list.begin());
}

std::string verdict(const std::vector<Resumed>& results, size_t differ) {
  double losses = 0, seconds = 0;
  for (const Resumed& one : results) {
    losses = std::max(losses, one.losses);
    seconds += one.seconds;
  }
  if (differ > 0) return fmt::format("{} of {} cases do not resume as saved.\n", differ, results.size());
  return fmt::format(
      "All {} cases ({:.0f} s): weights, optimizer state and progress equal the saved ones bit for bit; the updates "
      "after the checkpoint have the same samples; their losses differ by at most {:.1e} (allowed: {:.0e}; 0 under "
      "the same strategy).\n",
      results.size(), seconds, losses, kLossTolerance);
}

}  // namespace

std::string table(const std::vector<Resumed>& results) {
  std::vector<std::string> names;
  for (const Resumed& one : results) place_in(names, one.which.from.name);
  for (const Resumed& one : results) place_in(names, one.which.to.name);
  std::map<std::pair<size_t, size_t>, bool> fits;
  std::string misfits;
  const std::string corner = "saved by (row), resumed by (column)";
  size_t differ = 0, width = corner.size() - 3;
  for (const Resumed& one : results) {
    const auto cell = std::pair{place_in(names, one.which.from.name), place_in(names, one.which.to.name)};
    fits[cell] = one.problem.empty() && fits.try_emplace(cell, true).first->second;
    if (one.problem.empty()) continue;
    misfits += fmt::format("DIFFERS  {}: {}\n", one.which.name(), one.problem);
    ++differ;
  }
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text = fmt::format("{:{}}", corner, width + 3);
  for (size_t to = 0; to < names.size(); ++to) text += fmt::format(" {:>2}", to + 1);
  for (size_t from = 0; from < names.size(); ++from) {
    text += fmt::format("\n{:>2} {:{}}", from + 1, names[from], width);
    for (size_t to = 0; to < names.size(); ++to) {
      const auto cell = fits.find({from, to});
      text += fmt::format(" {:>2}", cell == fits.end() ? "" : cell->second ? "=" : "!");
    }
  }
  return text + "\n\n" + misfits + verdict(results, differ);
}

}  // namespace trainer::selftest
