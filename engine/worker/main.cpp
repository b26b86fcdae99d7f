// trainer-worker: the part of the program that needs libtorch.
#include "engine/worker/program.h"

int main(int argc, char** argv) {
  return trainer::worker::run_worker(argc, argv);
}
