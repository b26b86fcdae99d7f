#include "engine/parallel/stage_runner.h"

#include <algorithm>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/dist/phase.h"

namespace trainer::parallel {
namespace {

/// Whether any parameter in `module` is trained.
bool trains(nn::Module& module) {
  const auto all = module.all_parameters();
  return std::any_of(all.begin(), all.end(), [](const nn::ParameterPtr& p) { return p->trainable; });
}

/// The layout of the states that stages pass on: this rank's slice under sequence parallelism.
const nn::LayoutPtr& rows_between_regions(const nn::Rows& ids) {
  return ids.layout->sequence_slice ? ids.layout->sequence_slice : ids.layout;
}

}  // namespace

StageRunner::StageRunner(models::DecoderModel& model, dist::MeshPtr mesh, const PipelineShape& shape,
                         const std::vector<models::Chunk>& chunks)
    : model_(model), mesh_(std::move(mesh)), shape_(shape), stages_of_all_(std::ssize(chunks)) {
  dist::Comm& pipeline = mesh_->pipeline();
  const auto blocks = model.blocks();
  bool trained = false;  // whether any parameter so far is trained
  for (nn::Module* module : model.stack().embeddings()) trained = trained || trains(*module);
  for (int64_t n = 0; n < stages_of_all_; ++n) {
    Stage stage{n, chunks[static_cast<size_t>(n)], trained && n > 0};
    for (int64_t i = stage.blocks.begin; i < stage.blocks.end; ++i)
      trained = trained || trains(*blocks[static_cast<size_t>(i)]);
    stage.gradient_after = trained && n + 1 < stages_of_all_;
    if (n % pipeline.size() == pipeline.rank()) stages_.push_back(stage);
  }
  const int size = pipeline.size(), wraps = shape_.chunks > 1 ? size : size - 1;
  for (int from = 0; from < wraps; ++from) {
    const int to = (from + 1) % size;
    if (pipeline.rank() != from && pipeline.rank() != to) continue;
    (pipeline.rank() == from ? to_next_ : to_previous_) = std::make_unique<Neighbor>(pipeline, from, to);
  }
  model.stack().wrap([this](const nn::RowsList& in, const nn::Pass& pass, const nn::Module::Forward&) {
    return nn::RowsList{run_stages(in[0], pass)};
  });
}

const std::string& StageRunner::place_of(const Stage& stage) const {
  return model_.blocks()[static_cast<size_t>(stage.blocks.begin)]->path();
}

// The names differ from pair to pair: a rank numbers its groups of a name, and its neighbor has others of them.
StageRunner::Neighbor::Neighbor(dist::Comm& pipeline, int from, int to)
    : states(pipeline.group(fmt::format("states {}-{}", from, to), {from, to})),
      gradients(pipeline.group(fmt::format("gradients {}-{}", to, from), {from, to})) {}

at::Tensor StageRunner::received(int64_t rows, dist::Comm& along) {
  const at::Tensor states = at::empty({rows, model_.stack().width()}, at::TensorOptions(mesh_->world().device()));
  if (rows > 0) along.receive(states, 1 - along.rank())->wait();
  return states;
}

std::unique_ptr<dist::Pending> StageRunner::send(const at::Tensor& states, dist::Comm& along) {
  return states.numel() > 0 ? along.send(states, 1 - along.rank()) : nullptr;
}

at::Tensor StageRunner::receive_gradient(int64_t rows) {
  return received(rows, *to_next_->gradients);
}

std::unique_ptr<dist::Pending> StageRunner::send_gradient(const at::Tensor& gradient) {
  return send(gradient, *to_previous_->gradients);
}

int64_t StageRunner::most_in_flight_before() const {
  const dist::Comm& pipeline = mesh_->pipeline();
  return most_in_flight(shape_, (pipeline.rank() + pipeline.size() - 1) % pipeline.size());
}

StageRunner::Crossing StageRunner::run(const Stage& stage, const std::function<void()>& work) {
  running_ = &stage;
  work();
  running_ = nullptr;
  return std::exchange(crossing_, {});
}

void StageRunner::wait_until_received() {
  if (crossing_.sent) forwarded_.push_back(std::move(crossing_));
  crossing_ = {};
  for (const Crossing& crossing : forwarded_) crossing.sent->wait();
  forwarded_.clear();
}

/// The output of the whole stack; its tensor is undefined if a later stage computes it.
nn::Rows StageRunner::run_stages(const nn::Rows& ids, const nn::Pass& pass) {
  for (const Stage& stage : stages_) {
    if (running_ != nullptr && running_ != &stage) continue;
    if (running_ == nullptr && crossing_.sent) forwarded_.push_back(std::move(crossing_));
    crossing_ = run_stage(stage, ids, pass);
  }
  const bool whole = last(running_ != nullptr ? *running_ : stages_.back());
  return {whole ? crossing_.out : at::Tensor(), rows_between_regions(ids)};
}

StageRunner::Crossing StageRunner::run_stage(const Stage& stage, const nn::Rows& ids, const nn::Pass& pass) {
  const dist::Phase phase(place_of(stage));
  const bool first = stage.number == 0;
  Crossing crossing;
  nn::Rows in = ids;
  if (!first) {
    in.layout = rows_between_regions(ids);
    in.x = crossing.in = received(in.layout->tokens(), *to_previous_->states);
    crossing.in.set_requires_grad(stage.gradient_before && at::GradMode::is_enabled());
  }
  crossing.out = model_.stack().run(stage.blocks, std::move(in), pass).x;
  if (!last(stage)) {
    crossing.out = crossing.out.contiguous();
    crossing.sent = send(crossing.out.detach(), *to_next_->states);
  }
  return crossing;
}

}  // namespace trainer::parallel
