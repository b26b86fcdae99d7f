#include "engine/prepare/inputs.h"

#include "data/chat/chat_template.h"
#include "engine/prepare/class_names.h"
#include "engine/prepare/run_length.h"

namespace trainer::prepare {

Inputs load_inputs(const config::Plan& plan, const data::PrepareProgress& progress) {
  const config::Config& c = plan.config;
  Inputs inputs;
  data::DatasetsRequest request{c.data, c.seed};
  request.progress = progress;
  if (c.training.max_steps > 0)
    request.train_samples = c.training.max_steps * global_batch(c.training, plan.data_ranks());
  if (c.data.task == config::Task::kSequenceClassification) {
    SettledClasses classes = settled_classes(c);
    request.settled_labels = std::move(classes.names);
    request.label_order = classes.order;
  }
  if (c.data.task != config::Task::kImageClassification)
    inputs.tokenizer = data::open_tokenizer(c.tokenizer, c.model.path);
  if (inputs.tokenizer && c.data.dialogue != config::Dialogue::kNone)
    inputs.chat_template = data::chat_template_text(c.data.chat_template, *inputs.tokenizer);
  inputs.datasets = data::open_datasets(request, inputs.tokenizer.get());
  return inputs;
}

}  // namespace trainer::prepare
