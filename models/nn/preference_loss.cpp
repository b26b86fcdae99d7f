#include "models/nn/preference_loss.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

namespace trainer::nn {
namespace {

/// A loss of margins, and its derivative.
struct OfMargins {
  at::Tensor loss, grad;
};

/// -weight log s(b m) - against log s(-b m).
OfMargins logistic(const at::Tensor& scaled, double beta, double weight, double against) {
  const at::Tensor p = at::sigmoid(scaled);
  return {-weight * at::log_sigmoid(scaled) - against * at::log_sigmoid(-scaled),
          beta * (against * p - weight * (1 - p))};
}

OfMargins of_margins(const PreferenceOptions& options, const at::Tensor& margins) {
  const double b = options.beta, e = options.label_smoothing;
  const at::Tensor scaled = b * margins;
  switch (options.kind) {
    case PreferenceKind::kRobust:
      return logistic(scaled, b, (1 - e) / (1 - 2 * e), -e / (1 - 2 * e));
    case PreferenceKind::kHinge:
      return {at::clamp(1 - scaled, 0), -b * scaled.lt(1).to(scaled.scalar_type())};
    case PreferenceKind::kIpo: {
      const at::Tensor distance = margins - 1 / (2 * b);
      return {distance * distance, 2 * distance};
    }
    case PreferenceKind::kSigmoid:
    case PreferenceKind::kSigmoidNorm:
      break;
  }
  return logistic(scaled, b, 1 - e, e);
}

bool is_normalized(PreferenceKind kind) {
  return kind == PreferenceKind::kIpo || kind == PreferenceKind::kSigmoidNorm;
}

}  // namespace

PreferenceTerms preference_terms(const PreferenceOptions& options, const at::Tensor& log_probs,
                                 const at::Tensor& reference, const at::Tensor& tokens) {
  const at::Tensor lengths = is_normalized(options.kind) ? at::clamp(tokens, 1) : at::ones_like(tokens);
  const at::Tensor ratios = (log_probs - reference) / lengths;
  const OfMargins of = of_margins(options, ratios.select(1, 0) - ratios.select(1, 1));
  PreferenceTerms terms{of.loss, at::stack({of.grad, -of.grad}, 1) / lengths};
  if (options.rpo_alpha == 0) return terms;
  const at::Tensor weights = -options.rpo_alpha / at::clamp(tokens.select(1, 0), 1);
  terms.loss = terms.loss + weights * log_probs.select(1, 0);
  terms.grad.select(1, 0).add_(weights);
  return terms;
}

at::Tensor tokens_of_texts(const Layout& rows) {
  at::Tensor counts = at::empty({rows.samples()}, at::kDouble);
  for (int64_t s = 0; s < rows.samples(); ++s)
    counts.data_ptr<double>()[s] = static_cast<double>(rows.spans[static_cast<size_t>(s)].length);
  return counts;
}

at::Tensor text_log_probs(const at::Tensor& losses, const Layout& rows) {
  std::vector<at::Tensor> sums;
  for (const Span& span : rows.spans) sums.push_back(-losses.narrow(0, span.begin, span.length).sum());
  return sums.empty() ? at::zeros({0}, losses.options()) : at::stack(sums);
}

void RewardSums::add(double beta, const at::Tensor& log_probs, const at::Tensor& reference) {
  const at::Tensor rewards = beta * (log_probs - reference), chosen = rewards.select(1, 0),
                   rejected = rewards.select(1, 1);
  const at::Tensor right = chosen.gt(rejected).to(at::kDouble);
  const at::Tensor found = at::stack({chosen.sum(), rejected.sum(), right.sum(), at::ones_like(right).sum()});
  const std::lock_guard lock(mutex_);
  sums_ = sums_.defined() ? sums_ + found.to(sums_.device()) : found;
}

at::Tensor RewardSums::sums() const {
  return sums_.defined() ? sums_.cpu() : at::zeros({4}, at::kDouble);
}

std::map<std::string, double> reward_metrics(const at::Tensor& sums, const std::string& prefix) {
  const auto* const sum = sums.const_data_ptr<double>();
  const double pairs = sum[3];
  return {{prefix + "rewards/chosen", sum[0] / pairs},
          {prefix + "rewards/rejected", sum[1] / pairs},
          {prefix + "rewards/accuracies", sum[2] / pairs},
          {prefix + "rewards/margins", (sum[0] - sum[1]) / pairs}};
}

RowsToLoss preference_loss(const PreferenceOptions& options, LayoutPtr rows, at::Tensor reference,
                           std::shared_ptr<RewardSums> rewards) {
  return [options, rows = std::move(rows), reference = std::move(reference),
          rewards = std::move(rewards)](const at::Tensor& losses) {
    const at::Tensor counts = tokens_of_texts(*rows);
    const auto here = [&](const at::Tensor& x) { return x.to(losses.device(), /*non_blocking=*/true); };
    const at::Tensor log_probs = text_log_probs(losses, *rows).view(reference.sizes()), known = here(reference);
    const PreferenceTerms terms = preference_terms(options, log_probs, known, here(counts.view(reference.sizes())));
    if (rewards) rewards->add(options.beta, log_probs, known);
    // A row's cross-entropy is the negative of its log-probability.
    const at::Tensor weights =
        at::repeat_interleave(-terms.grad.flatten(), here(counts.to(at::kLong)), 0, losses.size(0));
    return LossOfRows{terms.loss.sum(), weights.to(at::kFloat)};
  };
}

}  // namespace trainer::nn
