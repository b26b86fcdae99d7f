#include "engine/report/differences.h"

#include <algorithm>

namespace trainer::report {

std::vector<Difference> differences_of(const std::vector<RunFolder>& runs) {
  std::vector<Difference> options;  // in the order of the files
  for (size_t i = 0; i < runs.size(); ++i)
    for (const Setting& one : runs[i].settings) {
      auto found =
          std::find_if(options.begin(), options.end(), [&](const auto& option) { return option.key == one.key; });
      if (found == options.end())
        found = options.insert(options.end(), {one.key, std::vector<std::string>(runs.size())});
      found->values[i] = one.value;
    }
  std::erase_if(options, [](const Difference& option) {
    return option.key == "output_dir" ||
           std::adjacent_find(option.values.begin(), option.values.end(), std::not_equal_to<>()) == option.values.end();
  });
  return options;
}

}  // namespace trainer::report
