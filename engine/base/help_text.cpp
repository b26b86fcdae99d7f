#include "engine/base/help_text.h"

#include <algorithm>

#include "engine/base/terminal_text.h"

namespace trainer {

std::string help_in_80_columns(const std::string& help) {
  std::string out;
  for (size_t begin = 0; begin < help.size();) {
    const size_t end = std::min(help.find('\n', begin), help.size());
    const std::string line = help.substr(begin, end - begin);
    const size_t indent = std::min(line.find_first_not_of(' '), line.size());
    const size_t gap = line.find("  ", indent);
    const bool flag = line.compare(indent, 2, "--") == 0;  // of a footer: "  --steps N: updates to measure"
    const size_t column = gap == std::string::npos ? indent + (flag ? 4 : 0) : line.find_first_not_of(' ', gap);
    out += wrapped(line, 80, column == std::string::npos ? 0 : column - indent) + "\n";
    begin = end + 1;
  }
  return out;
}

}  // namespace trainer
