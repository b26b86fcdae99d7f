#include "engine/cli/worker.h"

namespace trainer::cli {

int run_tokenize(const Arguments& arguments) {
  Arguments words{"tokenize"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  become_worker(words);
}

}  // namespace trainer::cli
