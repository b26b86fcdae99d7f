#include "engine/dist/power_sgd.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

namespace trainer::dist {
namespace {

/// Gram-Schmidt: makes the rows orthonormal; a row that is a linear combination of those before it becomes 0. Two
/// passes, as one leaves the rows slightly non-orthogonal.
void make_orthonormal(const at::Tensor& given, double epsilon) {
  const at::Tensor rows = given.to(at::kCPU);  // only a few
  constexpr double kNothing = 1e-6;            // a remainder below this part of the length is rounding error
  const int64_t count = rows.size(0), width = rows.size(1);
  auto* const all = rows.data_ptr<float>();
  const auto dot = [width](const float* a, const float* b) {
    double sum = 0;
    for (int64_t i = 0; i < width; ++i) sum += static_cast<double>(a[i]) * b[i];
    return sum;
  };
  for (int64_t r = 0; r < count; ++r) {
    float* const row = all + r * width;
    const double before = std::sqrt(dot(row, row));
    for (int pass = 0; pass < 2; ++pass)
      for (int64_t other = 0; other < r; ++other) {
        const float* const known = all + other * width;
        const auto part = static_cast<float>(dot(row, known));
        for (int64_t i = 0; i < width; ++i) row[i] -= part * known[i];
      }
    const double length = std::sqrt(dot(row, row));
    const double scale = length > kNothing * before ? 1 / (length + epsilon) : 0;
    for (int64_t i = 0; i < width; ++i) row[i] = static_cast<float>(row[i] * scale);
  }
  if (!given.is_cpu()) given.copy_(rows);
}

}  // namespace

struct PowerSgd::Matrix {
  Key key;
  at::Tensor values;  // [n, m]: a view of the gradient, or a copy of a whole bucket
  int64_t rank;
  at::Tensor p, q;  // transposed: [r, n], [r, m]
};

PowerSgd::PowerSgd(Comm& comm, const PowerSgdOptions& options, at::ScalarType sent_as)
    : comm_(comm), options_(options), sent_as_(sent_as) {}

void PowerSgd::sum(size_t bucket, const at::Tensor& flat, const std::vector<at::Tensor>& gradients) {
  if (bucket == 0) ++iteration_;
  if (iteration_ <= options_.start_iteration) return sum_together({flat});
  std::vector<Matrix> matrices = matrices_of(bucket, flat, gradients);
  if (options_.batched) {
    if (matrices.empty()) return sum_together({flat});
    sum_compressed(matrices);
    flat.copy_(matrices[0].values.view(-1).narrow(0, 0, flat.numel()));
    return;
  }
  std::vector<at::Tensor> as_they_are;
  for (size_t i = 0, next = 0; i < gradients.size(); ++i) {
    const bool compressed = next < matrices.size() && matrices[next].key.second == i;
    if (compressed)
      ++next;
    else
      as_they_are.push_back(gradients[i]);
  }
  sum_together(as_they_are);
  sum_compressed(matrices);
}

std::vector<PowerSgd::Matrix> PowerSgd::matrices_of(size_t bucket, const at::Tensor& flat,
                                                    const std::vector<at::Tensor>& gradients) const {
  std::vector<Matrix> matrices;
  const auto add = [&](size_t place, const at::Tensor& values) {
    const int64_t n = values.size(0), m = values.size(1), rank = std::min({n, m, options_.rank});
    const auto compressed = static_cast<double>((n + m) * rank);
    if (compressed * options_.min_compression_rate < static_cast<double>(n * m))
      matrices.push_back({{bucket, place}, values, rank, {}, {}});
  };
  if (options_.batched) {
    const auto side = static_cast<int64_t>(std::ceil(std::sqrt(static_cast<double>(flat.numel()))));
    const at::Tensor square = at::zeros({side * side}, flat.options());
    square.narrow(0, 0, flat.numel()).copy_(flat);
    add(0, square.view({side, side}));
    return matrices;
  }
  for (size_t i = 0; i < gradients.size(); ++i)
    if (gradients[i].dim() > 1) add(i, gradients[i].view({gradients[i].size(0), -1}));
  return matrices;
}

/// The initial Q, the same on every rank.
at::Tensor PowerSgd::starting_q(const Matrix& matrix) {
  const auto known = q_.find(matrix.key);
  at::Tensor q;
  if (known != q_.end() && options_.warm_start) {
    q = known->second;
  } else {
    q = at::empty({matrix.rank, matrix.values.size(1)}, at::kFloat);
    std::seed_seq seeds{options_.seed, iteration_, static_cast<int64_t>(matrix.key.first),
                        static_cast<int64_t>(matrix.key.second)};
    std::mt19937 draws(seeds);
    constexpr float kHalf = 2147483648.0F;
    for (float* x = q.data_ptr<float>(); x != q.data_ptr<float>() + q.numel(); ++x)
      *x = static_cast<float>(draws()) / kHalf - 1;
    q = q.to(matrix.values.device());
  }
  make_orthonormal(q, options_.epsilon);
  return q;
}

void PowerSgd::sum_compressed(std::vector<Matrix>& matrices) {
  std::vector<at::Tensor> ps, qs;
  for (Matrix& m : matrices) {
    if (options_.error_feedback) {
      at::Tensor& lost = lost_[m.key];
      if (lost.defined()) m.values.add_(lost);
      lost = m.values.clone();
    }
    m.q = starting_q(m);
    m.p = at::mm(m.q, m.values.t());
    ps.push_back(m.p);
  }
  sum_together(ps);
  for (Matrix& m : matrices) {
    make_orthonormal(m.p, options_.epsilon);
    m.q = at::mm(m.p, m.values);
    qs.push_back(m.q);
  }
  sum_together(qs);
  for (Matrix& m : matrices) {
    m.values.copy_(at::mm(m.p.t(), m.q));
    if (options_.error_feedback) lost_[m.key].sub_(m.values, 1.0 / comm_.size());
    if (options_.warm_start) q_[m.key] = m.q;
  }
}

void PowerSgd::sum_together(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) return;
  std::vector<at::Tensor> flat;
  for (const at::Tensor& tensor : tensors) flat.push_back(tensor.reshape({-1}).to(sent_as_));
  const at::Tensor all = flat.size() == 1 ? flat[0].clone() : at::cat(flat);
  comm_.all_reduce(all);
  int64_t at = 0;
  for (const at::Tensor& tensor : tensors) {
    tensor.copy_(all.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
}

}  // namespace trainer::dist
