#include "engine/base/malloc_tunables.h"
#include "engine/base/screen.h"
#include "engine/cli/program.h"

int main(int argc, char** argv) {
  trainer::screen::open_missing();
  trainer::set_malloc_tunables();
  return trainer::screen::finish_output(trainer::cli::run({argv + 1, argv + argc}));
}
