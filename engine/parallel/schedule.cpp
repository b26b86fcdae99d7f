#include "engine/parallel/schedule.h"

#include "engine/base/errors.h"
#include "engine/parallel/context_parallel.h"
#include "models/decoder_model.h"
#include "models/virtual_tokens.h"

namespace trainer::parallel {

Schedule::Schedule(models::Model& model, dist::MeshPtr mesh, Weights& weights)
    : model_(model), mesh_(std::move(mesh)), weights_(weights) {}

double Schedule::loss_sum(const models::Batch& batch, const nn::Pass& pass) {
  ScalarSum loss;
  loss.add(model_.loss_sum(input_of(batch), pass));
  return sum_of_parts(values_of({loss}).front());
}

at::Tensor Schedule::logits(const models::Batch& batch, const nn::Pass& pass) {
  return model_.logits(with_prompt(batch), pass);
}

at::Tensor Schedule::decode(const at::Tensor& tokens, nn::Pass& pass) {
  return model_.decode(tokens, pass);
}

at::Tensor Schedule::log_probs(const models::Batch& batch, const nn::Pass& pass) {
  auto* const decoder = dynamic_cast<models::DecoderModel*>(&model_);
  require(decoder != nullptr && mesh_->pipeline().size() * mesh_->context().size() == 1,
          "log-probabilities of texts by {}", model_.class_name());
  return decoder->log_probs(input_of(batch), pass);
}

models::Batch Schedule::with_prompt(const models::Batch& batch) const {
  return models::with_virtual_tokens(batch, model_.virtual_tokens());
}

models::Batch Schedule::input_of(const models::Batch& batch) const {
  return own_rows(with_prompt(batch), mesh_);
}

}  // namespace trainer::parallel
