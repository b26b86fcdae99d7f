// The losses of Direct Preference Optimization.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include <ATen/core/Tensor.h>

#include "models/nn/layout.h"
#include "models/nn/rows_to_loss.h"

namespace trainer::nn {

/// With TRL's names. m = (log p - log p_ref)(chosen) - (log p - log p_ref)(rejected), b = beta, e = label smoothing:
///   sigmoid       -(1 - e) log s(b m) - e log s(-b m)              Rafailov et al. 2023; e > 0: cDPO, Mitchell 2023
///   robust        (-(1 - e) log s(b m) + e log s(-b m)) / (1 - 2e)  Chowdhury et al. 2024
///   hinge         max(0, 1 - b m)                                  Zhao et al. 2023
///   ipo           (m - 1 / 2b)^2                                   Azar et al. 2023
///   sigmoid_norm  sigmoid
/// ipo and sigmoid_norm divide each text's log-probabilities by the number of its learned tokens. rpo_alpha adds
/// -rpo_alpha log p(chosen) / learned tokens of the chosen text, whose mean over pairs is LLaMA-Factory's. (TRL's mean
/// over the tokens of a micro-batch depends on which pairs share one.)
enum class PreferenceKind { kSigmoid, kRobust, kHinge, kIpo, kSigmoidNorm };

struct PreferenceOptions {
  PreferenceKind kind = PreferenceKind::kSigmoid;
  double beta = 0.1;
  double label_smoothing = 0;
  double rpo_alpha = 0;
};

/// The terms of pairs, without autograd.
struct PreferenceTerms {
  at::Tensor loss;  // [P]
  at::Tensor grad;  // [P, 2]: the derivatives by the log-probabilities of the chosen and the rejected text
};

/// `log_probs` and `reference` [P, 2] fp64: sums over the learned tokens of the chosen and the rejected text, by the
/// model and by the reference. `tokens` [P, 2]: the numbers of these tokens.
PreferenceTerms preference_terms(const PreferenceOptions& options, const at::Tensor& log_probs,
                                 const at::Tensor& reference, const at::Tensor& tokens);

/// The log-probability of each text, [spans] fp64, from the cross-entropy of its rows, which `rows` lays out.
at::Tensor text_log_probs(const at::Tensor& losses, const Layout& rows);

/// The number of rows of each span, [spans] fp64 on the CPU.
at::Tensor tokens_of_texts(const Layout& rows);

/// Sums over pairs, added by any number of threads. A reward is beta * (log p - log p_ref).
class RewardSums {
 public:
  /// `log_probs` and `reference` as above, on one device.
  void add(double beta, const at::Tensor& log_probs, const at::Tensor& reference);
  /// The rewards of chosen and of rejected texts, pairs whose chosen text has the higher one, all pairs: [4] fp64.
  at::Tensor sums() const;

 private:
  at::Tensor sums_;  // undefined: nothing was added
  std::mutex mutex_;
};

/// TRL's metrics of such sums: rewards/chosen, rewards/rejected, rewards/accuracies and rewards/margins after `prefix`.
std::map<std::string, double> reward_metrics(const at::Tensor& sums, const std::string& prefix = "");

/// The sum of the losses of pairs. Spans 2p and 2p + 1 of `rows` are the learned tokens of the texts of pair p.
/// `reference` [P, 2] fp64, on the CPU.
/// `rewards`, if set, gets those of the pairs.
RowsToLoss preference_loss(const PreferenceOptions& options, LayoutPtr rows, at::Tensor reference,
                           std::shared_ptr<RewardSums> rewards = nullptr);

}  // namespace trainer::nn
