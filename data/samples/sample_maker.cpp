#include "data/samples/sample_maker.h"

#include <algorithm>

#include "data/chat/dialogue_renderer.h"
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

/// The learned token ranges: begin, end, begin, end, … A token belongs to the byte range in which it begins.
std::vector<int32_t> learned_tokens(const TokenOffsets& tokens, const std::vector<TextRange>& ranges) {
  std::vector<int32_t> out;
  size_t at = 0;
  for (const TextRange& range : ranges) {
    while (at < tokens.ids.size() && tokens.begins[at] < range.begin) ++at;
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
  if (dialogues_)
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
  sample.source = std::move(tokens.ids);
  sample.text = {dialogue.text.substr(0, dialogue.last_reply), dialogue.text.substr(dialogue.last_reply)};
  return sample;
}

void SampleMaker::make_causal(const Record& record, MadeRecord& made) const {
  const std::string source = rendered(source_, record, "source");
  const std::string target = target_ ? rendered(*target_, record, "target") : "";
  Rendered whole{source + target, {}, target.empty() ? 0 : source.size()};
  whole.learned = {{whole.last_reply, whole.text.size()}};
  MadeSample sample = learn_ranges(whole, true);
  // The end-of-sequence token, which is learned, replaces the tokens that the tokenizer appends.
  sample.source.resize(sample.source.size() - std::min(after_, sample.source.size()));
  if (tokenizer_.eos_id() >= 0) sample.source.push_back(tokenizer_.eos_id());
  const auto end = static_cast<int32_t>(sample.source.size());
  if (target.empty()) {
    sample.second = {0, end};
    sample.text = {"", whole.text};
  } else if (!sample.second.empty()) {
    sample.second.back() = end;
  }
  if (config_.group_texts) {  // split when the texts are grouped
    made.samples.push_back(std::move(sample));
    return;
  }
  keep_causal(std::move(sample), record, made);
}

void SampleMaker::keep_causal(MadeSample&& sample, const Record& record, MadeRecord& made) const {
  const auto length = static_cast<int64_t>(sample.source.size());
  if (length > config_.max_length && config_.on_too_long == TooLong::kCut) {
    sample.source.resize(config_.max_length);
    cut_ranges(sample.second, static_cast<int32_t>(config_.max_length));
    sample.source_cut = true;
  } else if (!fit(sample.source, config_.max_length, record, made, sample.source_cut)) {
    return;
  }
  if (sample.second.empty())
    ++made.too_long;  // nothing is left to learn
  else
    keep(std::move(sample), made);
}

void SampleMaker::make_dialogues(const Record& record, MadeRecord& made) const {
  for (const Rendered& dialogue : dialogues_->render(record)) keep_causal(learn_ranges(dialogue, false), record, made);
}

}  // namespace trainer::data
