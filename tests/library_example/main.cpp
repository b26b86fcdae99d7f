// `trainer` with a model family and a metric that it doesn't have.
#include "bag_of_words.h"
#include "cohen_kappa.h"
#include "engine/evaluation/scores.h"
#include "engine/worker/program.h"
#include "models/registry.h"

int main(int argc, char** argv) {
  return trainer::run_with(argc, argv, [] {
    using trainer::models::Task;
    trainer::models::add_family({"bag_of_words", example::build, {Task::kSequenceClassification}});
    trainer::evaluation::add_metric("cohen_kappa", /*lower_is_better=*/false, example::cohen_kappa);
  });
}
