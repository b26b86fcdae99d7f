#include "engine/evaluation/beam_search.h"

#include <algorithm>
#include <cmath>

namespace trainer::evaluation {
namespace {

constexpr float kImpossible = -1e9F;  // the score of a beam that only fills the batch, as in transformers

}  // namespace

BeamSearch::BeamSearch(const Beams& options, std::vector<int64_t> ends, int64_t most)
    : options_(options), ends_(std::move(ends)), most_(most), running_(static_cast<size_t>(options.count)) {
  // All beams are equal at first: only one of them may be continued.
  for (size_t beam = 1; beam < running_.size(); ++beam) running_[beam].score = kImpossible;
}

bool BeamSearch::is_end(int64_t token) const {
  return std::find(ends_.begin(), ends_.end(), token) != ends_.end();
}

/// Enough that `count` of them don't end their text, the best first.
std::vector<BeamSearch::Candidate> BeamSearch::best_candidates(const float* log_probabilities,
                                                               int64_t vocabulary) const {
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.score != b.score ? a.score > b.score : std::pair(a.beam, a.token) < std::pair(b.beam, b.token);
  };
  const size_t wanted = std::max<size_t>(2, 1 + ends_.size()) * running_.size();
  std::vector<Candidate> all;
  for (size_t beam = 0; beam < running_.size(); ++beam) {
    std::vector<Candidate> own(static_cast<size_t>(vocabulary));
    for (size_t token = 0; token < own.size(); ++token) {
      const float score = log_probabilities[beam * own.size() + token] + running_[beam].score;
      own[token] = {static_cast<int64_t>(beam), static_cast<int64_t>(token), score};
    }
    const auto end = own.begin() + static_cast<std::ptrdiff_t>(std::min(wanted, own.size()));
    std::partial_sort(own.begin(), end, own.end(), better);
    all.insert(all.end(), own.begin(), end);
  }
  std::sort(all.begin(), all.end(), better);
  all.resize(std::min(wanted, all.size()));
  return all;
}

std::vector<BeamSearch::Step> BeamSearch::advance(const float* log_probabilities, int64_t vocabulary) {
  const std::vector<Candidate> candidates = best_candidates(log_probabilities, vocabulary);
  const bool are_last = std::ssize(running_.front().tokens) + 1 >= most_;
  std::vector<Text> next;
  std::vector<Step> steps;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const Candidate& candidate = candidates[i];
    const bool ends = are_last || is_end(candidate.token);
    if (ends && i < running_.size()) finish(candidate);
    if ((ends && !are_last) || next.size() == running_.size()) continue;
    Text text{running_[static_cast<size_t>(candidate.beam)].tokens, candidate.score};
    text.tokens.push_back(candidate.token);
    next.push_back(std::move(text));
    steps.push_back({candidate.beam, candidate.token});
  }
  running_ = std::move(next);
  is_done_ = is_done_ || are_last;
  if (!is_done_) decide();
  return steps;
}

/// Keeps the text among the finished ones, if it is one of the best.
void BeamSearch::finish(const Candidate& candidate) {
  const auto most = static_cast<size_t>(options_.count);
  if (is_done_) return;
  Text text{running_[static_cast<size_t>(candidate.beam)].tokens, 0};
  const double length = static_cast<double>(text.tokens.size()) + 1;
  text.score = candidate.score / static_cast<float>(std::pow(length, options_.length_penalty));
  if (!is_end(candidate.token)) text.tokens.push_back(candidate.token);
  const auto place = std::find_if(finished_.begin(), finished_.end(),
                                  [&](const Text& other) { return other.score < text.score; });
  finished_.insert(place, std::move(text));
  if (finished_.size() > most) finished_.pop_back();
}

void BeamSearch::decide() {
  if (finished_.size() < static_cast<size_t>(options_.count)) return;
  const Text& best = running_.front();
  const bool longest = options_.stop == Beams::Stop::kNever && options_.length_penalty > 0;
  const auto length = static_cast<double>(longest ? most_ : std::ssize(best.tokens));
  const float possible = best.score / static_cast<float>(std::pow(length, options_.length_penalty));
  is_done_ = options_.stop == Beams::Stop::kWhenFull || possible <= finished_.back().score;
}

std::vector<BeamSearch::Text> BeamSearch::best() const {
  std::vector<Text> texts = finished_;
  texts.resize(static_cast<size_t>(options_.returned), {{}, kImpossible});
  return texts;
}

}  // namespace trainer::evaluation
