#include "models/decoder_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index_select.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "models/nn/device/layout_tensors.h"
#include "models/nn/soft_cap.h"

namespace trainer::models {
namespace {

/// The indices [R] of the rows of `layout` for which `wanted` is true, and the layout of those rows.
template <class F>
nn::Rows pick_rows(const nn::Layout& layout, at::Device device, const F& wanted) {
  std::vector<int64_t> numbers;
  auto picked = std::make_shared<nn::Layout>();
  for (int64_t s = 0; s < layout.samples(); ++s) {
    const nn::Span span = layout.spans[s];
    const auto before = static_cast<int64_t>(numbers.size());
    for (int64_t row = span.begin; row < span.begin + span.length; ++row)
      if (wanted(s, row)) numbers.push_back(row);
    picked->append(static_cast<int64_t>(numbers.size()) - before, layout.sample_index[s]);
  }
  at::Tensor rows = nn::device::host_memory({static_cast<int64_t>(numbers.size())}, at::kLong, device);
  if (!rows.is_meta()) std::copy(numbers.begin(), numbers.end(), rows.data_ptr<int64_t>());
  return {nn::device::sent(rows, device), std::move(picked)};
}

bool is_last(const nn::Layout& layout, int64_t sample, int64_t row) {
  return row + 1 == layout.spans[sample].begin + layout.spans[sample].length;
}

/// The layout of the rows that the head runs on, of loss_inputs().
const nn::LayoutPtr& rows_of_head(const nn::RowsList& inputs) {
  return inputs[1].x.defined() ? inputs[1].layout : inputs[0].layout;
}

}  // namespace

nn::RowsList DecoderModel::forward(const nn::RowsList& in, const nn::Pass& pass) {
  nn::Rows states = stack()(in[0], pass);
  if (in[1].x.defined())
    states = in[1].with(at::index_select(states.x, 0, nn::device::sent(in[1].x, states.x.device())));
  return {in.size() == 2 ? capped_head(states, pass) : head_loss(head(), states, in[2].x, pass, logit_soft_cap())};
}

nn::Rows DecoderModel::capped_head(const nn::Rows& hidden, const nn::Pass& pass) {
  const nn::Rows logits = head()(hidden, pass);
  return logit_soft_cap() > 0 ? logits.with(nn::soft_cap(logits.x, logit_soft_cap())) : logits;
}

at::Tensor DecoderModel::logits_of(const Batch& batch, const nn::Rows& picked, const nn::Pass& pass) {
  return (*this)({{batch.source_ids, batch.source}, picked}, pass)[0].x;
}

at::Tensor DecoderModel::logits(const Batch& batch, const nn::Pass& pass) {
  if (!classifies()) return logits_of(batch, {}, pass);
  const nn::Rows last = pick_rows(*batch.source, batch.source_ids.device(),
                                  [&](int64_t sample, int64_t row) { return is_last(*batch.source, sample, row); });
  return logits_of(batch, last, pass);
}

at::Tensor DecoderModel::loss_sum(const Batch& batch, const nn::Pass& pass) {
  if (classifies()) return Model::loss_sum(batch, pass);
  const nn::RowsList inputs = loss_inputs(batch);
  if (!batch.reference.defined()) return loss_of_inputs(inputs, pass);
  nn::Pass paired = pass;
  paired.label_smoothing = 0;
  paired.rows_to_loss = nn::preference_loss(pass.preference, rows_of_head(inputs), batch.reference, pass.rewards);
  return loss_of_inputs(inputs, paired);
}

at::Tensor DecoderModel::log_probs(const Batch& batch, const nn::Pass& pass) {
  const at::NoGradGuard no_grad;
  const nn::RowsList inputs = loss_inputs(batch);
  at::Tensor found;
  nn::Pass noted = pass;
  noted.label_smoothing = 0;
  noted.rows_to_loss = [&](const at::Tensor& losses) {
    found = nn::text_log_probs(losses, *rows_of_head(inputs));
    return nn::loss_of_rows({}, losses);
  };
  loss_of_inputs(inputs, noted);
  return found;
}

nn::RowsList DecoderModel::loss_inputs(const Batch& batch) {
  const nn::Rows ids{batch.source_ids, batch.source};
  if (batch.target_tokens == batch.labels.numel()) return {ids, {}, {batch.labels}};
  if (batch.labels.is_meta()) {  // only the number of rows that count is known
    auto rows = std::make_shared<nn::Layout>();
    rows->append(batch.target_tokens, 0);
    const at::Tensor some = at::empty({batch.target_tokens}, batch.labels.options());
    return {ids, {some, rows}, {some}};
  }
  const at::Tensor labels = batch.labels.contiguous();
  const auto* const label = labels.const_data_ptr<int64_t>();
  const nn::Rows learned =
      pick_rows(*batch.source, labels.device(), [&](int64_t, int64_t row) { return label[row] != -100; });
  return {ids, learned, {at::index_select(labels, 0, learned.x)}};
}

at::Tensor DecoderModel::decode(const at::Tensor& tokens, const nn::Pass& pass) {
  const nn::Layout& step = *pass.cache->step;
  nn::Rows states = decode_states(tokens, pass);
  if (step.tokens() > step.samples()) {
    const nn::Rows last =
        pick_rows(step, states.x.device(), [&](int64_t sample, int64_t row) { return is_last(step, sample, row); });
    states = last.with(at::index_select(states.x, 0, last.x));
  }
  return capped_head(states, pass).x;
}

nn::Rows DecoderModel::decode_states(const at::Tensor& tokens, const nn::Pass& pass) {
  return stack()({tokens, pass.cache->step}, pass);
}

nn::Rows DecoderModel::states(const Batch& batch, const nn::Pass& pass) {
  return stack()({batch.source_ids, batch.source}, pass);
}

}  // namespace trainer::models
