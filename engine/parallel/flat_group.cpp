#include "engine/parallel/flat_group.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/round_up.h"
#include "engine/dist/dry_memory.h"
#include "engine/parallel/freed_storage.h"
#include "engine/parallel/tensor_parallel.h"
#include "models/nn/weight_gradient.h"

namespace trainer::parallel {
namespace {

constexpr int64_t kAlignment = 128;  // bytes: of every shard, stored, gathered or reduced, in whichever dtype

/// Shards are multiples of this many values.
int64_t grain_of(const GroupKind& kind, at::ScalarType reduce) {
  int64_t grain = 1;
  const auto align = [&](int64_t values, int64_t bytes) {
    grain = std::lcm(grain, values * (kAlignment / std::gcd(kAlignment, bytes)));
  };
  for (const nn::Storage& storage : {kind.storage, kind.gathered}) {
    const int64_t values = storage.packed ? storage.packed->block : 1;
    align(values, storage.bytes(values));
  }
  if (kind.trainable) align(1, static_cast<int64_t>(c10::elementSize(reduce)));
  return std::lcm(grain, kind.storage.grain());
}

}  // namespace

FlatGroup::FlatGroup(GroupKind kind, std::vector<nn::ParameterPtr> parameters, const dist::Mesh& mesh,
                     at::ScalarType reduce, std::shared_ptr<HostOffload> offload)
    : kind_(kind),
      reduce_(mesh.tokens().size() > 1 ? reduce : at::kFloat),
      parameters_(std::move(parameters)),
      mesh_(mesh),
      comm_(mesh.shard()),
      offload_(std::move(offload)) {
  const auto on_device = at::TensorOptions().device(comm_.device());
  int64_t total = 0;
  for (const nn::ParameterPtr& p : parameters_) {
    offsets_.push_back(total);
    total = round_up(total + p->numel(), kind.storage.grain());
  }
  share_ = round_up((total + comm_.size() - 1) / comm_.size(), grain_of(kind_, reduce_));
  if (!offload_) shared_ = comm_.shared_memory(kind.storage.bytes(share_ * comm_.size()));
  if (shared_.defined()) shared_ = shared_.view(kind.storage.dtype);
  const int64_t mine = kind.storage.elements(share_);
  const auto zeros = [&](int64_t n, at::ScalarType dtype) {
    return offload_ ? offload_->zeros(n, dtype) : at::zeros({n}, on_device.dtype(dtype));
  };
  shard_ = shared_.defined() ? shared_.narrow(0, comm_.rank() * mine, mine) : zeros(mine, kind.storage.dtype);
  const int64_t all = kind.gathered.elements(share_ * comm_.size());
  full_ = full_is_shared() ? shared_ : at::empty({all}, on_device.dtype(kind.gathered.dtype));
  if (kind.trainable) shard_grad_ = zeros(share_, at::kFloat);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    // variable_data: a separate version counter; otherwise autograd would refuse backward after the next gather.
    const nn::Parameter& p = *parameters_[i];
    at::Tensor leaf = full_.narrow(0, kind.gathered.elements(offsets_[i]), kind.gathered.elements(p.numel()))
                          .view(kind.gathered.shape(p.shape))
                          .variable_data();
    parameters_[i]->value = leaf.set_requires_grad(kind.trainable);
    views_.push_back(parameters_[i]->value);
    if (kind.trainable && nn::writes_gradient(views_.back())) nn::allow_stale_gradient(parameters_[i]);
  }
  free();
}

int64_t FlatGroup::sharable_gradient_bytes() const {
  const bool sharable = kind_.trainable && shared_.defined() && comm_.size() > 1 && full_.scalar_type() == at::kFloat &&
                        reduce_ == at::kFloat;
  return sharable ? share_ * comm_.size() * static_cast<int64_t>(sizeof(float)) : 0;
}

FlatGroup::Piece FlatGroup::piece_of(size_t i) const {
  const int64_t first = share_ * comm_.rank(), last = first + share_;
  const int64_t begin = std::clamp(first - offsets_[i], int64_t{0}, parameters_[i]->numel());
  const int64_t end = std::clamp(last - offsets_[i], int64_t{0}, parameters_[i]->numel());
  return {begin, end, offsets_[i] + begin - first};
}

at::Tensor FlatGroup::in_shard(const Piece& piece) const {
  const int64_t length = kind_.storage.elements(piece.end - piece.begin);
  return shard_.narrow(0, length > 0 ? kind_.storage.elements(piece.at) : 0, length);
}

void FlatGroup::load(const WeightSource& source) {
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (const Piece piece = piece_of(i); piece.end > piece.begin)
      source.read_part(*parameters_[i], piece.begin, piece.end, in_shard(piece));
}

void FlatGroup::start_gather() {
  if (state_ != State::kSharded) return;
  const at::NoGradGuard no_grad;
  allocate_storage(full_);
  if (shared_.defined()) {
    full_.copy_(shared_);
    state_ = State::kGathered;
    return;
  }
  const dist::CommunicationMemory communication;
  if (offload_) {
    gather_ = offload_->gather(full_, shard_, comm_);
  } else {
    gather_.memory = {shard_.to(kind_.gathered.dtype)};
    gather_.pending = comm_.all_gather(full_, gather_.memory.front());
  }
  state_ = State::kGathering;
}

void FlatGroup::wait_gathered() {
  start_gather();
  if (state_ == State::kGathered) return;
  gather_.wait();
  state_ = State::kGathered;
}

void FlatGroup::free() {
  if (state_ == State::kGathering) wait_gathered();
  if (state_ == State::kSharded || full_is_shared()) return;
  free_storage(full_);
  state_ = State::kSharded;
}

void FlatGroup::begin_grads() {
  if (!kind_.trainable || grads_.defined()) return;
  const dist::CommunicationMemory communication;
  if (shared_gradients_) rows_ = shared_gradients_->take(sharable_gradient_bytes());
  if (rows_.defined()) rows_ = rows_.view(full_.scalar_type());
  grads_ = rows_.defined() ? rows_.select(0, comm_.rank()) : at::empty_like(full_);
  int64_t ready = 0;  // values before this are zeros, or to be replaced
  const auto zero_until = [&](int64_t end) {
    if (end > ready) grads_.narrow(0, ready, end - ready).zero_();
  };
  for (size_t i = 0; i < views_.size(); ++i) {
    views_[i].mutable_grad() = grads_.narrow(0, offsets_[i], views_[i].numel()).view(parameters_[i]->shape);
    if (!nn::writes_gradient(views_[i])) continue;
    parameters_[i]->stale_grad = true;
    zero_until(offsets_[i]);
    ready = offsets_[i] + views_[i].numel();
  }
  zero_until(grads_.numel());
}

void FlatGroup::start_reduction() {
  finish_reduction();  // of an earlier micro-batch
  if (!grads_.defined()) return;
  const at::NoGradGuard no_grad;
  const dist::CommunicationMemory communication;
  for (const nn::ParameterPtr& p : parameters_) nn::refresh_gradient(*p);  // of weights that no sample used
  for (at::Tensor& view : views_) view.mutable_grad() = at::Tensor();
  const at::Tensor grads = std::exchange(grads_, {});
  if (rows_.defined()) return shared_gradients_->sum(std::exchange(rows_, {}), shard_grad_, std::exchange(adds_, true));
  reduced_ = grads.to(reduce_);  // regardless of the compute dtype
  scattered_ = comm_.reduce_scatter(reduced_);
  if (!comm_.runs_beside()) finish_reduction();
}

void FlatGroup::finish_reduction() {
  if (!reduced_.defined()) return;
  const at::NoGradGuard no_grad;
  scattered_.pending->wait();
  const bool adds = std::exchange(adds_, true);
  if (offload_)
    offload_->send_gradient(scattered_.shard, shard_grad_, adds);
  else if (adds)
    shard_grad_.add_(scattered_.shard);
  else
    shard_grad_.copy_(scattered_.shard);
  const bool in_use = offload_ && scattered_.shard.is_alias_of(reduced_);
  scattered_ = {};
  if (!in_use) free_storage(reduced_);  // explicitly: Gloo's thread may hold a reference until the next unit has begun
  reduced_ = at::Tensor();
}

void FlatGroup::reduce_replicas() {
  if (!kind_.trainable) return;
  const at::NoGradGuard no_grad;
  const dist::CommunicationMemory communication;
  if (!std::exchange(adds_, true)) shard_grad_.zero_();  // no backward of this update reached the unit
  if (mesh_.replicate().size() == 1) return;
  if (offload_) {
    offload_->all_reduce(shard_grad_, reduce_, mesh_.replicate());
  } else {
    const at::Tensor summed = shard_grad_.to(reduce_);
    mesh_.replicate().all_reduce(summed);
    if (!summed.is_same(shard_grad_)) shard_grad_.copy_(summed);
  }
}

void FlatGroup::reduce_partial() {
  if (kind_.trainable) sum_partial_grads(shares(), mesh_.tensor());
}

std::vector<at::Tensor> FlatGroup::shares() const {
  std::vector<at::Tensor> found;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (const Piece piece = piece_of(i); parameters_[i]->partial_grad && piece.end > piece.begin)
      found.push_back(shard_grad_.narrow(0, piece.at, piece.end - piece.begin));
  return found;
}

void FlatGroup::append_logical_tensors(std::vector<LogicalTensor>& to) const {
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const nn::Parameter& p = *parameters_[i];
    const Piece piece = piece_of(i);
    LogicalTensor tensor = logical_tensor_of(p, piece.begin, piece.end, mesh_.replicate(), kind_.holders, mesh_);
    tensor.value = in_shard(piece);
    const int64_t length = piece.end - piece.begin;
    if (kind_.trainable) tensor.grad = shard_grad_.narrow(0, length > 0 ? piece.at : 0, length);
    to.push_back(std::move(tensor));
  }
}

}  // namespace trainer::parallel
