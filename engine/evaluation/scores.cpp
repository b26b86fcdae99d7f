#include "engine/evaluation/scores.h"

#include <algorithm>
#include <utility>

#include "engine/base/metrics.h"
#include "engine/evaluation/bleu.h"
#include "engine/evaluation/class_scores.h"
#include "engine/evaluation/rouge.h"

namespace trainer::evaluation {
namespace {

std::map<std::string, Score>& added_scores() {
  static std::map<std::string, Score> added;
  return added;
}

}  // namespace

void add_metric(const std::string& name, bool lower_is_better, Score score) {
  trainer::add_metric({name, lower_is_better});
  added_scores()[name] = std::move(score);
}

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
  for (const auto& [name, score] : added_scores())
    if (asked(name.c_str())) all[name] = score(predictions);
  std::map<std::string, double> chosen;
  for (const std::string& name : metrics)
    if (const auto found = all.find(name); found != all.end()) chosen["eval_" + name] = found->second;
  return chosen;
}

}  // namespace trainer::evaluation
