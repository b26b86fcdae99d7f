#include "engine/parallel/pipelined_model.h"

#include <algorithm>
#include <numeric>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/phase.h"
#include "engine/parallel/sharded_stage_weights.h"
#include "engine/parallel/whole_stage_weights.h"

namespace trainer::parallel {
namespace {

/// Whether any parameter in `module` is trained.
bool trains(nn::Module& module) {
  const auto all = module.all_parameters();
  return std::any_of(all.begin(), all.end(), [](const nn::ParameterPtr& p) { return p->trainable; });
}

}  // namespace

// Note [Stages]
// Every rank runs the model's own code, except for the stack of blocks: a stage receives the states from the previous
// rank, runs its blocks, and sends the result to the next rank. So losses, decoding and classification use the same
// code as on one rank; all ranks but the last stop after the stack.
PipelinedModel::PipelinedModel(std::unique_ptr<models::Model> model, dist::MeshPtr mesh, Precision precision,
                               const PipelineOptions& options, const std::optional<config::FsdpConfig>& sharding)
    : ParallelModel(std::move(model), std::move(mesh), precision), shape_(options.shape) {
  dist::Comm& pipeline = this->mesh().pipeline();
  const auto chunks = split_into_chunks(this->model(), options);
  chunks_ = static_cast<int64_t>(chunks.size());
  const auto blocks = decoder().blocks();
  bool trained = false;  // whether any parameter so far is trained
  for (nn::Module* module : decoder().stack().embeddings()) trained = trained || trains(*module);
  for (int64_t n = 0; n < chunks_; ++n) {
    Stage stage{n, chunks[static_cast<size_t>(n)], trained && n > 0};
    for (int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i)
      trained = trained || trains(*blocks[static_cast<size_t>(i)]);
    stage.gradient_after = trained && n + 1 < chunks_;
    if (n % pipeline.size() == pipeline.rank()) stages_.push_back(std::move(stage));
  }
  // Messages between two ranks are identified only by their order: if a rank's next and previous rank are the same,
  // gradients need a separate communicator.
  backwards_ = &pipeline;
  if (shape_.chunks > 1) {
    std::vector<int> all(static_cast<size_t>(pipeline.size()));
    std::iota(all.begin(), all.end(), 0);
    own_backwards_ = pipeline.group("gradients", all);
    backwards_ = own_backwards_.get();
  }
  decoder().stack().wrap([this](const nn::Tensors& in, const nn::Pass& pass, const nn::Module::Forward&) {
    return nn::Tensors{run_stages(in[0], pass)};
  });
  if (sharding)
    weights_ = std::make_unique<ShardedStageWeights>(decoder(), chunks, this->mesh(), precision, *sharding);
  else
    weights_ = std::make_unique<WholeStageWeights>(decoder(), chunks, this->mesh(), precision);
}

/// The path of the stage's first block, for reports.
const std::string& PipelinedModel::place_of(const Stage& stage) {
  return decoder().blocks()[static_cast<size_t>(stage.blocks.begin)]->path();
}

int PipelinedModel::neighbor(int64_t step) const {
  const dist::Comm& pipeline = mesh().pipeline();
  return static_cast<int>((pipeline.rank() + step + pipeline.size()) % pipeline.size());
}

at::Tensor PipelinedModel::received(int64_t rows, int from, dist::Comm& along) {
  const at::Tensor states = at::empty({rows, decoder().stack().width()}, at::TensorOptions(comm().device()));
  if (rows > 0) along.receive(states, from)->wait();
  return states;
}

std::unique_ptr<dist::Pending> PipelinedModel::send(const at::Tensor& states, int to, dist::Comm& along) {
  return states.numel() > 0 ? along.send(states, to) : nullptr;
}

/// The output of the whole stack; undefined if a later stage computes it.
at::Tensor PipelinedModel::run_stages(const at::Tensor& ids, const nn::Pass& pass) {
  for (const Stage& stage : stages_) {
    if (running_ != nullptr && running_ != &stage) continue;
    if (running_ == nullptr && crossing_.sent) forwarded_.push_back(std::move(crossing_));
    crossing_ = run_stage(stage, ids, pass);
  }
  return last(running_ != nullptr ? *running_ : stages_.back()) ? crossing_.out : at::Tensor();
}

PipelinedModel::Crossing PipelinedModel::run_stage(const Stage& stage, const at::Tensor& ids, const nn::Pass& pass) {
  const dist::Phase phase(place_of(stage));
  dist::Comm& pipeline = mesh().pipeline();
  Crossing crossing;
  if (!first(stage)) {
    crossing.in = received(pass.stream ? pass.stream->tokens() : ids.size(0), neighbor(-1), pipeline);
    crossing.in.set_requires_grad(stage.gradient_before && at::GradMode::is_enabled());
  }
  crossing.out = decoder().stack().run(stage.blocks, first(stage) ? ids : crossing.in, pass);
  if (!last(stage)) {
    crossing.out = crossing.out.contiguous();
    crossing.sent = send(crossing.out.detach(), neighbor(1), pipeline);
  }
  return crossing;
}

double PipelinedModel::update(const std::vector<models::Batch>& micro_batches, int64_t target_tokens,
                              const nn::Pass& given) {
  nn::Pass pass = given;
  pass.compute = precision().compute;
  double total = 0;
  const int rank = mesh().pipeline().rank();
  weights_->begin();
  for (const PipelineStep& step : pipeline_schedule(shape_, rank, static_cast<int64_t>(micro_batches.size()))) {
    Stage& stage = stages_[static_cast<size_t>(step.chunk)];
    if (step.forward)
      total +=
          forward(stage, given_to_model(micro_batches[static_cast<size_t>(step.micro_batch)]), target_tokens, pass);
    else
      backward(stage);
  }
  for (; !gradients_sent_.empty(); gradients_sent_.pop_front()) gradients_sent_.front().sent->wait();
  weights_->end();
  weights_->reduce_gradients(logical_tensors());
  return mesh().pipeline().sum(total);
}

double PipelinedModel::forward(Stage& stage, const models::Batch& batch, int64_t target_tokens, const nn::Pass& pass) {
  running_ = &stage;
  ShardedUnits::ForwardPassPtr weights_pass = weights_->begin_forward();
  double total = 0;
  if (last(stage)) {
    const at::Tensor loss = decoder().loss_sum(batch, pass);
    total = value_of(loss);
    crossing_.out = to_backward(loss, target_tokens);
  } else {
    decoder().states(batch, pass);
  }
  running_ = nullptr;
  crossing_.pass = std::move(weights_pass);
  stage.in_flight.push_back(std::move(crossing_));
  crossing_ = {};
  return total;
}

void PipelinedModel::backward(Stage& stage) {
  const dist::Phase phase(place_of(stage));
  Crossing crossing = std::move(stage.in_flight.front());
  stage.in_flight.pop_front();
  at::Tensor gradient;
  if (stage.gradient_after) gradient = received(crossing.out.size(0), neighbor(1), *backwards_);
  if (crossing.sent) crossing.sent->wait();  // doesn't block: the next rank has already sent its gradient
  if (crossing.out.requires_grad()) {
    weights_->begin_backward(crossing.pass);
    torch::autograd::backward({crossing.out}, gradient.defined() ? nn::Tensors{gradient} : nn::Tensors{});
    weights_->end_backward();
  }
  if (!stage.gradient_before) return;
  at::Tensor before = crossing.in.grad();
  before = before.defined() ? before.contiguous() : at::zeros_like(crossing.in);
  auto sent = send(before, neighbor(-1), *backwards_);
  if (sent) gradients_sent_.push_back({before, {}, std::move(sent)});
  // The previous rank has at most this many forwards without a backward, so it has received all older gradients.
  const int64_t waiting = most_in_flight(shape_, neighbor(-1));
  for (; static_cast<int64_t>(gradients_sent_.size()) > waiting; gradients_sent_.pop_front())
    gradients_sent_.front().sent->wait();
}

void PipelinedModel::begin_forward() {
  weights_->begin();
  weights_->begin_forward();
}

void PipelinedModel::end_forward() {
  weights_->end();
}

/// Keeps sent states alive until they are received.
void PipelinedModel::after_forward() {
  if (crossing_.sent) forwarded_.push_back(std::move(crossing_));
  crossing_ = {};
  for (const Crossing& crossing : forwarded_) crossing.sent->wait();
  forwarded_.clear();
}

double PipelinedModel::evaluate(const models::Batch& given, const nn::Pass& given_pass) {
  const models::Batch batch = given_to_model(given);
  double loss = 0;
  run_forward(given_pass, [&](nn::Pass& pass) {
    if (at_end())
      loss = value_of(decoder().loss_sum(batch, pass));
    else
      decoder().states(batch, pass);
    after_forward();
  });
  return mesh().pipeline().sum(loss);
}

at::Tensor PipelinedModel::logits(const models::Batch& given, const nn::Pass& pass) {
  const models::Batch batch = given_to_model(given);
  at::Tensor logits;
  if (at_end())
    logits = decoder().logits(batch, pass);
  else
    decoder().states(batch, pass);
  after_forward();
  return logits;
}

at::Tensor PipelinedModel::decode(const at::Tensor& tokens, nn::Pass& pass) {
  at::Tensor logits;
  after_forward();  // for the prompts, before the first token
  if (at_end())
    logits = decoder().decode(tokens, pass);
  else
    decoder().decode_states(tokens, pass);
  after_forward();
  return logits;
}

}  // namespace trainer::parallel
