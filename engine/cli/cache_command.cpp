#include <algorithm>
#include <iterator>

#include "engine/cli/flags.h"
#include "engine/cli/worker.h"

namespace trainer::cli {

int run_cache(const Arguments& arguments) {
  Arguments words{"cache"};
  std::transform(arguments.begin(), arguments.end(), std::back_inserter(words), with_underscores);
  become_program(prepare_path(), words, nullptr);
}

}  // namespace trainer::cli
