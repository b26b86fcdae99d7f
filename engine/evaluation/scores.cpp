#include "engine/evaluation/scores.h"

#include <algorithm>

#include "engine/evaluation/bleu.h"
#include "engine/evaluation/class_scores.h"
#include "engine/evaluation/rouge.h"

namespace trainer::evaluation {

std::map<std::string, double> scores(const std::vector<Prediction>& predictions,
                                     const std::vector<std::string>& metrics) {
  std::map<std::string, double> all = class_scores(predictions);
  all["exact_match"] = all["accuracy"];
  const auto asked = [&](const char* begin) {
    return std::any_of(metrics.begin(), metrics.end(),
                       [&](const std::string& name) { return name.starts_with(begin); });
  };
  if (asked("rouge")) all.merge(rouge_scores(predictions));
  if (asked("bleu")) all["bleu"] = bleu_score(predictions);
  std::map<std::string, double> chosen;
  for (const std::string& name : metrics)
    if (const auto found = all.find(name); found != all.end()) chosen["eval_" + name] = found->second;
  return chosen;
}

}  // namespace trainer::evaluation
