#include "engine/cli/program.h"

int main(int argc, char** argv) {
  return trainer::cli::run({argv + 1, argv + argc});
}
