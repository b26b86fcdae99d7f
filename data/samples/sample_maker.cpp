#include "data/samples/sample_maker.h"

#include <algorithm>

#include "data/chat/dialogue_renderer.h"
#include "data/chat/pair.h"
#include "data/readers/text_input.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

using config::Task;
using config::TooLong;

std::string rendered(const Template& text, const Record& record, const char* option) {
  std::string out = text.render(record);
  if (trimmed(out).empty()) throw InputError("{}: the text for `data.{}` is empty.", record.where(), option);
  return out;
}

/// The learned token ranges: begin, end, begin, end, … As in transformers, a token that reaches into a byte range
/// belongs to it: the first word of a reply is often one token with the space at the end of its prompt.
std::vector<int32_t> learned_tokens(const TokenOffsets& tokens, const std::vector<TextRange>& ranges) {
  std::vector<int32_t> out;
  size_t at = 0;
  for (const TextRange& range : ranges) {
    while (at < tokens.ids.size() && tokens.ends[at] <= range.begin) ++at;
    const auto begin = static_cast<int32_t>(at);
    while (at < tokens.ids.size() && tokens.begins[at] < range.end) ++at;
    if (static_cast<int32_t>(at) == begin) continue;
    if (!out.empty() && out.back() == begin)
      out.back() = static_cast<int32_t>(at);
    else
      out.insert(out.end(), {begin, static_cast<int32_t>(at)});
  }
  return out;
}

/// Truncates the ranges of a sample to `length` tokens.
void cut_ranges(std::vector<int32_t>& ranges, int32_t length) {
  while (!ranges.empty() && ranges[ranges.size() - 2] >= length) ranges.resize(ranges.size() - 2);
  if (!ranges.empty()) ranges.back() = std::min(ranges.back(), length);
}

}  // namespace

SampleMaker::SampleMaker(const config::DataConfig& config, const Tokenizer& tokenizer)
    : config_(config),
      tokenizer_(tokenizer),
      source_(config.source, "data.source"),
      after_(trailing_special_tokens(tokenizer)) {
  if (!config.target.empty()) target_.emplace(config.target, "data.target");
  if (config.dialogue != config::Dialogue::kNone) dialogues_ = std::make_unique<DialogueRenderer>(config, tokenizer);
}

SampleMaker::~SampleMaker() = default;

MadeRecord SampleMaker::make(const Record& record) const {
  MadeRecord made;
  if (!config_.rejected.empty())
    make_preference(record, made);
  else if (dialogues_)
    make_dialogues(record, made);
  else if (config_.task == Task::kSeq2SeqLm)
    make_pair(record, made);
  else if (config_.task == Task::kCausalLm)
    make_causal(record, made);
  else
    make_class(record, made);
  return made;
}

bool SampleMaker::fit(std::vector<int32_t>& ids, int64_t limit, const Record& record, MadeRecord& made,
                      bool& cut) const {
  if (static_cast<int64_t>(ids.size()) <= limit) return true;
  if (config_.on_too_long == TooLong::kError)
    throw InputError("{}: {} tokens, but at most {} are allowed; see data.on_too_long.", record.where(), ids.size(),
                     limit);
  if (config_.on_too_long == TooLong::kDrop) {
    ++made.too_long;
    return false;
  }
  const size_t behind = std::min<size_t>(after_, limit);  // the special tokens at the end stay
  ids.erase(ids.begin() + (limit - static_cast<int64_t>(behind)), ids.end() - static_cast<int64_t>(behind));
  cut = true;
  return true;
}

void SampleMaker::keep(MadeSample&& sample, MadeRecord& made) const {
  if (static_cast<int64_t>(sample.source.size()) < std::max<int64_t>(1, config_.min_length))
    ++made.too_short;
  else
    made.samples.push_back(std::move(sample));
}

void SampleMaker::make_pair(const Record& record, MadeRecord& made) const {
  MadeSample sample;
  sample.text = {rendered(source_, record, "source"), rendered(*target_, record, "target")};
  sample.source = tokenizer_.encode(sample.text.source, true);
  sample.second = tokenizer_.encode(sample.text.target, true);
  if (fit(sample.source, config_.max_source_length, record, made, sample.source_cut) &&
      fit(sample.second, config_.max_target_length, record, made, sample.target_cut))
    keep(std::move(sample), made);
}

void SampleMaker::make_class(const Record& record, MadeRecord& made) const {
  MadeSample sample;
  sample.text = {rendered(source_, record, "source"), rendered(*target_, record, "target")};
  sample.label = std::string(trimmed(sample.text.target));
  sample.source = tokenizer_.encode(sample.text.source, true);
  if (fit(sample.source, config_.max_length, record, made, sample.source_cut)) keep(std::move(sample), made);
}

MadeSample SampleMaker::learn_ranges(const Rendered& dialogue, bool add_special) const {
  TokenOffsets tokens = tokenizer_.encode_with_offsets(dialogue.text, add_special);
  MadeSample sample;
  sample.second = learned_tokens(tokens, dialogue.learned);
  sample.merged = !sample.second.empty() && tokens.begins[sample.second[0]] < dialogue.learned[0].begin;
  sample.source = std::move(tokens.ids);
  sample.text = {dialogue.text.substr(0, dialogue.last_reply), dialogue.text.substr(dialogue.last_reply)};
  return sample;
}

MadeSample SampleMaker::learn_to_end(const Rendered& text) const {
  MadeSample sample = learn_ranges(text, true);
  // The end-of-sequence token, which is learned, replaces the tokens that the tokenizer appends.
  sample.source.resize(sample.source.size() - std::min(after_, sample.source.size()));
  const int32_t eos = tokenizer_.eos_id();
  const bool has_one = !sample.source.empty() && sample.source.back() == eos;  // the text itself ends with it
  if (eos >= 0 && !has_one) sample.source.push_back(eos);
  if (!sample.second.empty()) sample.second.back() = static_cast<int32_t>(sample.source.size());
  return sample;
}

int32_t SampleMaker::begin_of_reply(const Rendered& text, const MadeSample& sample, bool add_special) const {
  std::vector<int32_t> prompt = tokenizer_.encode(text.text.substr(0, text.last_reply), add_special);
  if (add_special) prompt.resize(prompt.size() - std::min(after_, prompt.size()));
  const std::vector<int32_t>& whole = sample.source;
  const auto end = std::mismatch(prompt.begin(), prompt.end(), whole.begin(), whole.end()).first;
  return static_cast<int32_t>(end - prompt.begin());
}

void SampleMaker::make_causal(const Record& record, MadeRecord& made) const {
  // A prompt may be empty, as TRL's: nothing predicts the first token of the reply then.
  const std::string source = target_ ? source_.render(record) : rendered(source_, record, "source");
  const std::string target = target_ ? rendered(*target_, record, "target") : "";
  Rendered whole{source + target, {}, target.empty() ? 0 : source.size()};
  whole.learned = {{whole.last_reply, whole.text.size()}};
  MadeSample sample = learn_to_end(whole);
  if (target.empty()) {
    sample.second = {0, static_cast<int32_t>(sample.source.size())};
    sample.text = {"", whole.text};
  } else if (sample.merged) {
    sample.second[0] = begin_of_reply(whole, sample, true);
  }
  if (config_.group_texts) {  // split when the texts are grouped
    made.samples.push_back(std::move(sample));
    return;
  }
  keep_causal(std::move(sample), record, made);
}

bool SampleMaker::fit_causal(MadeSample& sample, const Record& record, MadeRecord& made) const {
  const auto length = static_cast<int64_t>(sample.source.size());
  if (length > config_.max_length && config_.on_too_long == TooLong::kCut) {
    sample.source.resize(config_.max_length);
    cut_ranges(sample.second, static_cast<int32_t>(config_.max_length));
    sample.source_cut = true;
  } else if (!fit(sample.source, config_.max_length, record, made, sample.source_cut)) {
    return false;
  }
  if (sample.second.empty()) ++made.too_long;  // nothing is left to learn
  return !sample.second.empty();
}

void SampleMaker::keep_causal(MadeSample&& sample, const Record& record, MadeRecord& made) const {
  if (fit_causal(sample, record, made)) keep(std::move(sample), made);
}

void SampleMaker::make_dialogues(const Record& record, MadeRecord& made) const {
  for (const Rendered& dialogue : dialogues_->render(record)) keep_causal(learn_ranges(dialogue, false), record, made);
}

RenderedPair SampleMaker::render_pair(const Record& record) const {
  if (dialogues_) return dialogues_->render_pair(record);
  const PairOfTexts texts = texts_of_pair(record, config_);
  const auto whole = [&](const std::string& reply) {
    const size_t begin = texts.prompt.size();
    return Rendered{texts.prompt + reply, {{begin, begin + reply.size()}}, begin};
  };
  return {whole(texts.chosen), whole(texts.rejected), texts.chosen == texts.rejected};
}

/// The tokens of both texts back to back. Without a prompt, nothing predicts the first token of a text.
void SampleMaker::make_preference(const Record& record, MadeRecord& made) const {
  const RenderedPair pair = render_pair(record);
  if (pair.same) {
    ++made.same;
    return;
  }
  const auto tokens_of = [&](const Rendered& text) {
    return dialogues_ ? learn_ranges(text, false) : learn_to_end(text);
  };
  MadeSample sample = tokens_of(pair.chosen), rejected = tokens_of(pair.rejected);
  if (sample.merged || rejected.merged) {  // both replies begin after the same tokens
    const int32_t first = std::min(begin_of_reply(pair.chosen, sample, !dialogues_),
                                   begin_of_reply(pair.rejected, rejected, !dialogues_));
    for (MadeSample* const one : {&sample, &rejected})
      if (!one->second.empty()) one->second[0] = first;
  }
  sample.merged |= rejected.merged;
  if (!fit_causal(sample, record, made) || !fit_causal(rejected, record, made)) return;
  const auto begin = static_cast<int32_t>(sample.source.size());
  sample.source.insert(sample.source.end(), rejected.source.begin(), rejected.source.end());
  sample.second.insert(sample.second.begin(), begin);
  for (const int32_t at : rejected.second) sample.second.push_back(begin + at);
  sample.source_cut |= rejected.source_cut;
  keep(std::move(sample), made);
}

}  // namespace trainer::data
