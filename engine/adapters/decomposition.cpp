#include "engine/adapters/decomposition.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/sqrt.h>

#include "engine/base/errors.h"
#include "models/nn/init.h"

namespace trainer::adapters {
namespace {

constexpr std::string_view kIterations = "pissa_niter_";

struct Svd {
  at::Tensor u, s, vh;  // [out, r], [r], [r, in]
};

Svd exact_svd(const at::Tensor& w, int64_t r) {
  const auto [u, s, vh] = at::linalg_svd(w, /*full_matrices=*/false);
  return {u.narrow(1, 0, r), s.narrow(0, 0, r), vh.narrow(0, 0, r)};
}

at::Tensor orthonormal(const at::Tensor& columns) {
  return std::get<0>(at::linalg_qr(columns));
}

Svd randomized_svd(const at::Tensor& w, int64_t r, int64_t iterations, const std::string& place) {
  nn::Parameter drawn;
  drawn.name = place;
  drawn.shape = {w.size(1), r};
  drawn.init = {nn::Init::kNormal, 1};
  at::Tensor q = at::empty(drawn.shape, at::kFloat);
  nn::draw(drawn, 0, 0, drawn.numel(), q.data_ptr<float>());
  q = orthonormal(at::mm(w, q));  // [out, r]
  for (int64_t i = 0; i < iterations; ++i) q = orthonormal(at::mm(w, orthonormal(at::mm(w.t(), q))));
  const Svd inside = exact_svd(at::mm(q.t(), w), r);
  return {at::mm(q, inside.u), inside.s, inside.vh};
}

}  // namespace

bool is_decomposed(const std::string& init) {
  return init == "pissa" || init == "olora" || init.starts_with(kIterations);
}

LowRank decompose(const at::Tensor& w, const std::string& init, int64_t r, double scale, const std::string& place) {
  require(is_decomposed(init), "no decomposition is called {}", init);
  if (init == "olora") {
    const auto [q, upper] = at::linalg_qr(w);
    return {upper.narrow(0, 0, r).contiguous(), q.narrow(1, 0, r).contiguous()};
  }
  const Svd svd =
      init == "pissa" ? exact_svd(w, r) : randomized_svd(w, r, std::stoll(init.substr(kIterations.size())), place);
  const at::Tensor root = at::sqrt(svd.s / scale);
  return {(root.unsqueeze(1) * svd.vh).contiguous(), (svd.u * root.unsqueeze(0)).contiguous()};
}

}  // namespace trainer::adapters
