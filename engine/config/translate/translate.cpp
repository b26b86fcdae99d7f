#include "engine/config/translate/translate.h"

namespace trainer::config {

void translate(Draft& draft) {
  translate_machines(draft);
  translate_training_arguments(draft);
  translate_report_to(draft);
  translate_fsdp_argument(draft);
  translate_accelerate(draft);
  default_ranks(draft);
  translate_deepspeed(draft);
  translate_megatron(draft);
  translate_strategy(draft);
  translate_use_cpu(draft);
  translate_alone(draft);
  translate_backend(draft);
}

}  // namespace trainer::config
