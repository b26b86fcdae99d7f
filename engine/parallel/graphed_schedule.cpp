#include "engine/parallel/graphed_schedule.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/base/listed.h"
#include "engine/base/log.h"
#include "models/nn/cross_entropy.h"
#include "models/nn/device/layout_tensors.h"

namespace trainer::parallel {
namespace {

constexpr size_t kMostGraphs = 8;  // they share memory, but each also has some megabytes of its own
constexpr size_t kRememberedShapes = 64;
constexpr int64_t kPatience = 64;  // micro-batches until few replays are reported

}  // namespace

GraphedSchedule::GraphedSchedule(models::DecoderModel& model, dist::MeshPtr mesh, Weights& weights,
                                 std::unique_ptr<dist::GraphRecorder> recorder)
    : Schedule(model, std::move(mesh), weights),
      decoder_(model),
      recorder_(std::move(recorder)),
      stream_(mesh_->world().device()),
      losses_(at::zeros({}, at::TensorOptions(stream_.device()).dtype(at::kDouble))),
      loss_grad_(at::full({}, 1, at::TensorOptions(stream_.device()).dtype(at::kFloat))) {}

ScalarSum GraphedSchedule::update(const std::vector<models::Batch>& micro_batches, const nn::Pass& given, const Root&) {
  losses_.zero_();
  loss_grad_.fill_(given.loss_grad);
  nn::Pass pass = given;
  pass.device_loss_grad = loss_grad_;
  weights_.begin();
  for (const models::Batch& batch : micro_batches) run(models::DecoderModel::loss_inputs(batch), pass);
  weights_.reduce_gradients();
  weights_.end();
  ScalarSum total;
  total.add(losses_);
  return total;
}

void GraphedSchedule::run(const nn::RowsList& inputs, const nn::Pass& pass) {
  Repeated* const shape = recorder_ && inputs.back().x.numel() > 0 ? repeated(inputs, pass) : nullptr;
  count(/*replayed=*/shape != nullptr && shape->graph != nullptr);
  if (shape == nullptr) return run_operators(inputs, pass);
  nn::check_labels(inputs.back().x, decoder_.vocabulary());
  shape->inputs.set(inputs);
  if (!shape->rehearsed) {
    if (!rehearse(*shape, pass)) run_operators(inputs, pass);
    return;
  }
  if (!shape->graph && !record(*shape, pass)) return run_operators(inputs, pass);
  shape->graph->replay();
}

GraphedSchedule::Repeated* GraphedSchedule::repeated(const nn::RowsList& inputs, const nn::Pass& pass) {
  BatchShape shape = shape_of(inputs, pass);
  if (const auto known = repeated_.find(shape); known != repeated_.end()) return &known->second;
  const auto seen = std::find(seen_once_.begin(), seen_once_.end(), shape);
  if (seen != seen_once_.end() && repeated_.size() < kMostGraphs) {
    seen_once_.erase(seen);
    return &repeated_.emplace(std::move(shape), Repeated{GraphInputs(inputs, stream_.device()), nullptr, false})
                .first->second;
  }
  if (seen == seen_once_.end()) seen_once_.push_back(std::move(shape));
  if (seen_once_.size() > kRememberedShapes) seen_once_.pop_front();
  return nullptr;
}

bool GraphedSchedule::rehearse(Repeated& shape, const nn::Pass& pass) {
  try {
    stream_.run([&] { run_operators(shape.inputs.rows(), pass); }).order_current_stream();
  } catch (const nn::device::NeedsSamples& error) {  // of the forward pass, so no gradient has changed
    give_up(error.what());
    return false;
  }
  shape.rehearsed = true;
  return true;
}

bool GraphedSchedule::record(Repeated& shape, const nn::Pass& pass) {
  try {
    const auto recorded = stream_.run([&] {
      const nn::device::NothingSent nothing;
      shape.graph = recorder_->record([&] { run_operators(shape.inputs.rows(), pass); });
    });
    recorded.order_current_stream();
  } catch (const std::exception& error) {
    give_up(error.what());
    return false;
  }
  if (mesh_->world().rank() != 0) return true;
  const nn::Layout& rows = *shape.inputs.rows().front().layout;
  log::info(
      "CUDA graph {} of at most {}: micro-batches of {} tokens in {} are replayed from now on",
      std::count_if(repeated_.begin(), repeated_.end(), [](const auto& one) { return one.second.graph != nullptr; }),
      kMostGraphs, rows.tokens(), counted(static_cast<size_t>(rows.samples()), "sample", "samples"));
  return true;
}

void GraphedSchedule::give_up(const std::string& why) {
  if (mesh_->world().rank() == 0)
    log::warning("training.cuda_graphs has no effect in this run, whose passes can't be recorded: {}",
                 why.substr(0, why.find('\n')));
  stream_.run([] {}).wait();  // before memory that it may use is freed
  recorder_.reset();
  repeated_.clear();
}

void GraphedSchedule::count(bool replayed) {
  replayed_ += replayed;
  if (++micro_batches_ != kPatience || 2 * replayed_ >= kPatience || !recorder_ || mesh_->world().rank() != 0) return;
  log::warning(
      "training.cuda_graphs has replayed {} of the first {} micro-batches. To repeat an earlier one's shape, a "
      "micro-batch must have as many samples, of the same lengths: data.group_texts cuts text into blocks of one "
      "length",
      replayed_, kPatience);
}

void GraphedSchedule::run_operators(const nn::RowsList& inputs, const nn::Pass& pass) {
  const at::Tensor loss = decoder_.loss_of_inputs(inputs, pass);
  losses_.add_(loss.detach());
  torch::autograd::backward({loss}, {loss_grad_});
}

}  // namespace trainer::parallel
