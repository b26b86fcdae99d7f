#include "tests/support/source_dir.h"

namespace trainer {

std::string source_dir() {
  return TRAINER_SOURCE_DIR;
}

}  // namespace trainer
