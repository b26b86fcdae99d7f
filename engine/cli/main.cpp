#include "engine/base/huge_pages.h"
#include "engine/base/screen.h"
#include "engine/cli/program.h"

int main(int argc, char** argv) {
  trainer::screen::open_missing();
  trainer::ask_for_huge_pages();
  return trainer::screen::finish_output(trainer::cli::run({argv + 1, argv + argc}));
}
