// Turns records into tokenized samples.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/chat/rendered.h"
#include "data/readers/record.h"
#include "data/readers/record_template.h"
#include "data/samples/samples.h"
#include "data/tokenizers/tokenizer.h"
#include "engine/config/sections.h"

namespace trainer::data {

/// Turns a dialogue's record into text; several when one record holds several (a play).
class DialogueRenderer;

/// A sample before it is stored (data/cache/token_cache.h).
struct MadeSample {
  std::vector<int32_t> source, second;
  std::string label;  // classification
  SampleText text;
  bool source_cut = false, target_cut = false;  // truncated: the text or a pair's source; a pair's target
  bool merged = false;                          // a token has the end of the prompt and the beginning of the reply
};

/// The samples of one record.
struct MadeRecord {
  std::vector<MadeSample> samples;
  int64_t too_long = 0, too_short = 0;  // dropped samples
  int64_t same = 0;                     // dropped pairs, of equal replies
};

/// Renders and tokenizes records for `config.task`. Safe to use from several threads.
class SampleMaker {
 public:
  /// Errors: ConfigError for an invalid template.
  SampleMaker(const config::DataConfig& config, const Tokenizer& tokenizer);
  ~SampleMaker();

  /// Errors: InputError with file and line for a record without text.
  MadeRecord make(const Record& record) const;

 private:
  void make_pair(const Record& record, MadeRecord& made) const;
  void make_class(const Record& record, MadeRecord& made) const;
  void make_causal(const Record& record, MadeRecord& made) const;
  void make_dialogues(const Record& record, MadeRecord& made) const;
  void make_preference(const Record& record, MadeRecord& made) const;

  RenderedPair render_pair(const Record& record) const;
  MadeSample learn_ranges(const Rendered& rendered, bool add_special) const;
  /// A text that isn't a dialogue, with the end-of-sequence token: its last range goes up to the end.
  MadeSample learn_to_end(const Rendered& text) const;
  /// The first token of a reply that is merged with its prompt: where the tokens of the prompt alone end or become
  /// others. Source: TRL.
  int32_t begin_of_reply(const Rendered& text, const MadeSample& sample, bool add_special) const;
  /// False when there are more than `limit` tokens and the sample is dropped.
  bool fit(std::vector<int32_t>& ids, int64_t limit, const Record& record, MadeRecord& made, bool& cut) const;
  void keep(MadeSample&& sample, MadeRecord& made) const;
  /// Truncates a causal sample, or returns false when it is dropped.
  bool fit_causal(MadeSample& sample, const Record& record, MadeRecord& made) const;
  void keep_causal(MadeSample&& sample, const Record& record, MadeRecord& made) const;

  const config::DataConfig& config_;
  const Tokenizer& tokenizer_;
  Template source_;
  std::optional<Template> target_;
  std::unique_ptr<DialogueRenderer> dialogues_;
  size_t after_ = 0;  // special tokens that the tokenizer appends to a text
};

}  // namespace trainer::data
