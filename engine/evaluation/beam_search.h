// Beam search, as transformers' generate() does it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace trainer::evaluation {

struct Beams {
  /// When the search of a text ends, besides at the most tokens. kHeuristic: once the best unfinished text, at its
  /// current length, is worse than the worst of `count` finished ones; kWhenFull: once `count` are finished; kNever: as
  /// kHeuristic, but at the length that would be best for it. transformers' early_stopping: false, true, "never".
  enum class Stop { kHeuristic, kWhenFull, kNever };

  int64_t count = 1;          // 1: no beam search
  double length_penalty = 1;  // a text's score is the sum of its log-probabilities over its length to this power
  Stop stop = Stop::kHeuristic;
  int64_t returned = 1;  // how many of the texts generate() returns for each sample, the best first; at most `count`
};

/// The texts that a search follows for one sample.
class BeamSearch {
 public:
  struct Step {
    int64_t beam, token;  // the text of `beam` so far, continued by `token`
  };

  /// A text ends with one of `ends`, or with its `most`-th token.
  BeamSearch(const Beams& options, std::vector<int64_t> ends, int64_t most);

  /// Continues every beam. `log_probabilities` [count, vocabulary]: of each beam's next token. Returns the steps of the
  /// new beams.
  std::vector<Step> advance(const float* log_probabilities, int64_t vocabulary);
  /// No other text can become the best one.
  bool is_done() const { return is_done_; }
  /// The tokens of a beam.
  const std::vector<int64_t>& tokens(int64_t beam) const { return running_.at(static_cast<size_t>(beam)).tokens; }
  struct Text {
    std::vector<int64_t> tokens;  // without its end
    float score = 0;              // of a finished text: the sum of its log-probabilities by its length (Beams)
  };
  /// The finished texts with the best scores, the best first: as many as Beams::returned, of which the last are empty
  /// if fewer are finished.
  std::vector<Text> best() const;

 private:
  struct Candidate {
    int64_t beam, token;
    float score;
  };
  std::vector<Candidate> best_candidates(const float* log_probabilities, int64_t vocabulary) const;
  bool is_end(int64_t token) const;
  void finish(const Candidate& candidate);
  void decide();

  const Beams options_;
  const std::vector<int64_t> ends_;
  const int64_t most_;
  std::vector<Text> running_, finished_;  // the best first
  bool is_done_ = false;
};

}  // namespace trainer::evaluation
