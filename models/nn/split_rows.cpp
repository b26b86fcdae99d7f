#include "models/nn/split_rows.h"

#include <algorithm>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>

#include "models/nn/device/layout_tensors.h"
#include "models/nn/saved.h"

namespace trainer::nn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

struct All : Function<All> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& mine, const LayoutPtr& rows) {
    keep(ctx, rows);
    return rows->shared->gather(mine);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept<LayoutPtr>(ctx)->shared->add_up(grads[0].clone(at::MemoryFormat::Contiguous)), at::Tensor()};
  }
};

struct AllAlike : Function<AllAlike> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& mine, const LayoutPtr& rows) {
    keep(ctx, rows);
    return rows->shared->gather(mine);
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept<LayoutPtr>(ctx)->shared->take(grads[0]), at::Tensor()};
  }
};

struct Sum : Function<Sum> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& shares, const LayoutPtr& rows) {
    keep(ctx, rows);
    return rows->shared->add_up(shares.contiguous());
  }
  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    return {kept<LayoutPtr>(ctx)->shared->gather(grads[0]), at::Tensor()};
  }
};

at::Tensor numbers(const std::vector<int64_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

/// The rows of `from` at the indices `numbers`, which are sent to its device at the first call.
at::Tensor picked(const at::Tensor& from, at::Tensor& numbers) {
  if (numbers.device() != from.device()) {
    const at::Tensor pinned = device::host_memory(numbers.sizes(), at::kLong, from.device());
    numbers = device::sent(pinned.copy_(numbers), from.device());
  }
  return at::index_select(from, 0, numbers);
}

}  // namespace

SplitRows::SplitRows(TensorGroupPtr group, const std::vector<std::vector<Range>>& rows) : group_(std::move(group)) {
  std::vector<int64_t> sizes;
  for (const std::vector<Range>& ranges : rows) {
    sizes.push_back(0);
    for (const Range& range : ranges) sizes.back() += range.end - range.begin;
    count_ += sizes.back();
    most_ = std::max(most_, sizes.back());
  }
  std::vector<int64_t> own, places(static_cast<size_t>(count_));
  bool in_order = count_ == most_ * static_cast<int64_t>(rows.size());
  for (size_t peer = 0; peer < rows.size(); ++peer) {
    int64_t at = static_cast<int64_t>(peer) * most_;
    for (const Range& range : rows[peer])
      for (int64_t row = range.begin; row < range.end; ++row) {
        if (static_cast<int>(peer) == group_->rank()) own.push_back(row);
        in_order = in_order && row == at;
        places[static_cast<size_t>(row)] = at++;
      }
  }
  own_ = numbers(own);
  if (!in_order) places_ = numbers(places);
}

at::Tensor SplitRows::all(const LayoutPtr& rows, const at::Tensor& mine) {
  return All::apply(mine, rows);
}
at::Tensor SplitRows::all_replicated(const LayoutPtr& rows, const at::Tensor& mine) {
  return AllAlike::apply(mine, rows);
}
at::Tensor SplitRows::sum(const LayoutPtr& rows, const at::Tensor& shares) {
  return Sum::apply(shares, rows);
}

at::Tensor SplitRows::gather(const at::Tensor& mine) const {
  if (count_ == 0) return at::empty_like(mine);
  at::Tensor sent = mine.contiguous();
  if (sent.size(0) < most_) {  // all ranks send the same number of rows
    sent = at::zeros({most_, mine.size(1)}, mine.options());
    sent.narrow(0, 0, mine.size(0)).copy_(mine);
  }
  const at::Tensor all = group_->gather(sent);
  return places_.defined() ? picked(all, places_) : all;
}

at::Tensor SplitRows::add_up(const at::Tensor& shares) const {
  if (shares.numel() > 0) group_->sum(shares);
  return take(shares);
}

at::Tensor SplitRows::take(const at::Tensor& all) const {
  return picked(all, own_);
}

LayoutPtr slice_of(const LayoutPtr& rows, const SplitRows::TensorGroupPtr& group) {
  const int64_t tokens = rows->tokens(), size = group->size();
  std::vector<std::vector<Range>> of_peers;
  for (int64_t rank = 0; rank < size; ++rank) of_peers.push_back({{tokens * rank / size, tokens * (rank + 1) / size}});
  const Range mine = of_peers[static_cast<size_t>(group->rank())].front();
  auto out = std::make_shared<Layout>();
  for (int64_t s = 0; s < rows->samples(); ++s) {
    const Span span = rows->spans[static_cast<size_t>(s)];
    const int64_t begin = std::max(span.begin, mine.begin), end = std::min(span.begin + span.length, mine.end);
    if (begin >= end) continue;
    out->append(end - begin, rows->sample_index[static_cast<size_t>(s)]);
    out->slices.push_back({rows->start(s) + begin - span.begin, rows->length_of_sample(s)});
  }
  out->whole = rows;
  out->is_sequence_slice = true;
  out->shared = std::make_shared<SplitRows>(group, of_peers);
  return out;
}

}  // namespace trainer::nn
