#include "data/tokenizers/pre_tokenizers/pre_tokenizer.h"
#include "data/tokenizers/pre_tokenizers/split_behavior.h"
#include "data/tokenizers/text/read_pattern.h"

namespace trainer::data {
namespace {

class Split : public PreTokenizer {
 public:
  explicit Split(const JsonView& view)
      : pattern_(read_pattern(view.at("pattern"))),
        behavior_(read_split_behavior(view.at("behavior"))),
        invert_(view.at("invert").flag(false)) {}

  void apply(Pieces& pieces) const override {
    split_pieces(pieces, behavior_,
                 [&](std::string_view text, Splitter& splitter) { split_by(pattern_, invert_, text, splitter); });
  }

 private:
  Pattern pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

}  // namespace

std::unique_ptr<PreTokenizer> read_split(const JsonView& view) {
  return std::make_unique<Split>(view);
}

SplitBehavior read_split_behavior(const JsonView& view) {
  return view
      .choice<SplitBehavior>({{"Removed", SplitBehavior::kRemoved},
                              {"Isolated", SplitBehavior::kIsolated},
                              {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
                              {"MergedWithNext", SplitBehavior::kMergedWithNext},
                              {"Contiguous", SplitBehavior::kContiguous}})
      .value_or(SplitBehavior::kIsolated);
}

}  // namespace trainer::data
