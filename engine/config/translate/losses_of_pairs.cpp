#include "engine/config/translate/losses_of_pairs.h"

#include <vector>

#include "engine/config/codec.h"

namespace trainer::config {

LossesOfPairs losses_of_pairs(const Node& losses, const Node& weights) {
  const char* const one =
      "write one loss with the weight 1, alone or with sft: loss_type [sigmoid, sft], loss_weights [1, …]";
  const auto items = losses.is_list() ? losses.items : std::vector<Node>{losses};
  std::vector<double> numbers(items.size(), 1.0);
  if (!weights.is_null() && (!decode(weights, numbers).empty() || numbers.size() != items.size()))
    return {items.empty() ? Node() : items.front(), Node(), "loss_weights must have a number for each loss_type"};
  LossesOfPairs result;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const bool sft = items[i].is_scalar() && lower(items[i].text) == "sft";
    if (sft && items.size() > 1 && result.rpo_alpha.is_null())
      result.rpo_alpha = encode(numbers[i]);
    else if (result.loss_type.is_null() && numbers[i] == 1.0)
      result.loss_type = items[i];
    else
      result.why = one;
  }
  if (result.loss_type.is_null()) result.why = one;
  return result;
}

}  // namespace trainer::config
