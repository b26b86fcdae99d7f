#include "data/cache/cache_maker.h"

#include <algorithm>
#include <map>

#include "data/cache/ordered_workers.h"
#include "data/cache/token_cache.h"
#include "data/chat/play_records.h"
#include "data/readers/class_label.h"
#include "data/readers/readers.h"
#include "data/sampler/random_subset.h"
#include "data/samples/sample_maker.h"
#include "engine/base/errors.h"
#include "engine/base/listed.h"
#include "engine/base/usable_cpus.h"

namespace trainer::data {
namespace {

constexpr size_t kChunkRecords = 256, kChunkBytes = 1 << 18;  // of work for one thread

/// Records that one thread turns into samples.
struct Chunk {
  std::vector<Record> records;
  int64_t first = 0;  // index of the first record
  size_t bytes = 0;
};

struct MadeChunk {
  std::vector<MadeRecord> records;
  std::vector<std::string> places;  // of each record
  std::vector<size_t> sources;      // index of each record's path
  int64_t skipped = 0;              // records that gave no sample because of an error
  std::string first_skipped;
  int64_t first = 0;
};

/// Concatenates texts and splits them into samples of equal length; the last sample of a source is shorter.
class Grouper {
 public:
  Grouper(int64_t length, std::function<void(MadeSample&&, int64_t record)> take)
      : length_(static_cast<size_t>(length)), take_(std::move(take)) {}

  void add(const MadeSample& sample, int64_t record) {
    if (waiting_.empty()) record_ = record;
    waiting_.insert(waiting_.end(), sample.source.begin(), sample.source.end());
    size_t at = 0;
    for (; waiting_.size() - at >= length_; at += length_) emit(at, length_);
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<int64_t>(at));
    if (at > 0) record_ = record;
  }
  void finish() {
    if (waiting_.size() > 1) emit(0, waiting_.size());
    waiting_.clear();
  }

 private:
  void emit(size_t begin, size_t count) {
    MadeSample sample;
    const auto from = waiting_.begin() + static_cast<int64_t>(begin);
    sample.source.assign(from, from + static_cast<int64_t>(count));
    sample.second = {0, static_cast<int32_t>(count)};
    take_(std::move(sample), record_);
  }

  size_t length_;
  std::function<void(MadeSample&&, int64_t)> take_;
  std::vector<int32_t> waiting_;
  int64_t record_ = 0;
};

class StoreMaker {
 public:
  StoreMaker(const PrepareRequest& request, const Tokenizer& tokenizer, const std::filesystem::path& folder)
      : request_(request),
        maker_(request.config, tokenizer),
        writer_(folder),
        grouper_(request.config.max_length,
                 [this](MadeSample&& sample, int64_t record) { store(sample, record, ""); }) {
    facts_.sources.assign(request.source.path.size(), 0);
  }

  void run() {
    const int64_t asked = request_.config.preprocessing_num_workers, threads = asked > 0 ? asked : usable_cpus();
    OrderedWorkers<Chunk, MadeChunk> workers(
        static_cast<int>(threads), [this](Chunk&& chunk) { return make(std::move(chunk)); },
        [this](MadeChunk&& made) { take(std::move(made)); });
    Chunk chunk;
    const auto push = [&] {
      const int64_t next = chunk.first + static_cast<int64_t>(chunk.records.size());
      if (!chunk.records.empty()) workers.push(std::move(chunk));
      chunk = Chunk{{}, next, 0};
    };
    try {
      const auto play = [&] { return PlayRecords(request_.source, request_.config.character); };
      const auto records = [&] { return RecordStream(request_.source); };
      if (request_.config.dialogue == config::Dialogue::kPlay)
        read(play, chunk, push);
      else
        read(records, chunk, push);
    } catch (...) {
      const std::exception_ptr error = std::current_exception();
      push();
      workers.finish();  // rethrows an earlier record's error first
      std::rethrow_exception(error);
    }
    push();
    workers.finish();
    if (request_.config.group_texts) grouper_.finish();
    finish();
  }

 private:
  template <class Open, class Push>
  void read(const Open& open, Chunk& chunk, const Push& push) {
    const bool draws = request_.seed && request_.max_records > 0;
    const RandomSubset subset(request_.seed.value_or(0), draws ? count(open()) : 0, request_.max_records);
    auto stream = open();
    Record record;
    int64_t so_far = 0;
    for (int64_t i = 0; (request_.max_records == 0 || so_far < request_.max_records) && stream.next(record); ++i) {
      if (draws && !subset.has(i)) continue;
      ++so_far;
      for (const auto& [name, text] : record.fields) chunk.bytes += text.size();
      chunk.records.push_back(std::move(record));
      if (chunk.records.size() < kChunkRecords && chunk.bytes < kChunkBytes) continue;
      part_ = stream.part();
      push();
    }
    summary_ = stream.summary();
  }

  /// Only a second pass knows which records are drawn; they are not tokenized in the first.
  template <class Stream>
  static int64_t count(Stream stream) {
    Record record;
    int64_t records = 0;
    while (stream.next(record)) ++records;
    return records;
  }

  MadeChunk make(Chunk&& chunk) const {
    MadeChunk made;
    made.first = chunk.first;
    for (const Record& record : chunk.records) {
      made.places.push_back(record.where());
      made.sources.push_back(record.entry);
      try {
        made.records.push_back(maker_.make(record));
      } catch (const InputError& error) {
        if (request_.source.on_bad_sample == config::OnBadSample::kError)
          throw InputError("{}\nSet `on_bad_sample: skip` to skip bad records.", error.what());
        made.records.emplace_back();
        ++made.skipped;
        if (made.first_skipped.empty()) made.first_skipped = error.what();
      }
    }
    return made;
  }

  void take(MadeChunk&& made) {
    for (size_t i = 0; i < made.records.size(); ++i) {
      if (made.sources[i] != source_ && request_.config.group_texts) grouper_.finish();
      source_ = made.sources[i];
      const int64_t record = made.first + static_cast<int64_t>(i);
      facts_.records = record + 1;
      facts_.too_long += made.records[i].too_long;
      facts_.too_short += made.records[i].too_short;
      if (made.records[i].same > 0 && same_++ == 0) first_same_ = made.places[i];
      for (MadeSample& sample : made.records[i].samples) {
        if (request_.config.group_texts)
          grouper_.add(sample, record);
        else
          store(sample, record, made.places[i]);
      }
    }
    skipped_ += made.skipped;
    if (first_skipped_.empty()) first_skipped_ = made.first_skipped;
    if (request_.progress) request_.progress(part_, facts_.samples);
  }

  void store(MadeSample& sample, int64_t record, const std::string& place) {
    if (request_.config.task == config::Task::kSequenceClassification)
      sample.second = {label_number(sample.label, place)};
    writer_.add(sample.source, sample.second, record);
    if (request_.keep_texts) writer_.add_text(sample.text);
    ++facts_.samples;
    ++facts_.sources.at(source_);
    facts_.cut += sample.source_cut || sample.target_cut ? 1 : 0;
    sources_cut_ += sample.source_cut ? 1 : 0;
    targets_cut_ += sample.target_cut ? 1 : 0;
    if (sample.merged && merged_++ == 0) first_merged_ = place;
    facts_.tokens += static_cast<int64_t>(sample.source.size());
    if (request_.config.task == config::Task::kSeq2SeqLm) facts_.tokens += static_cast<int64_t>(sample.second.size());
  }

  int32_t label_number(const std::string& label, const std::string& place) {
    const auto [found, is_new] = label_numbers_.try_emplace(label, static_cast<int32_t>(facts_.labels.size()));
    if (is_new) facts_.labels.push_back({label, 0, place});
    ++facts_.labels[found->second].samples;
    return found->second;
  }

  std::string cut_note() const {
    const config::DataConfig& c = request_.config;
    std::vector<std::string> limits;
    const auto add = [&](int64_t samples, const char* option, int64_t limit) {
      if (samples > 0) limits.push_back(fmt::format("{} to data.{} ({})", samples, option, limit));
    };
    const bool pair = c.task == config::Task::kSeq2SeqLm;
    add(sources_cut_, pair ? "max_source_length" : "max_length", pair ? c.max_source_length : c.max_length);
    add(targets_cut_, "max_target_length", c.max_target_length);
    return fmt::format("{} of {} samples ({:.3g} %) were truncated: {}; `data.on_too_long: drop` drops them",
                       facts_.cut, facts_.samples,
                       100 * static_cast<double>(facts_.cut) / static_cast<double>(facts_.samples),
                       fmt::join(limits, ", "));
  }

  void finish() {
    if (request_.config.task == config::Task::kSequenceClassification)
      facts_.class_names = declared_class_names(request_.source, target_column(request_.config));
    facts_.notes = summary_.notes();
    if (facts_.cut > 0) facts_.notes.push_back(cut_note());
    if (skipped_ > 0)
      facts_.notes.push_back(fmt::format("{} skipped because {} could not be converted{}: {}",
                                         counted(skipped_, "record was", "records were"), skipped_ == 1 ? "it" : "they",
                                         skipped_ == 1 ? "" : "; the first", first_skipped_));
    if (same_ > 0)
      facts_.notes.push_back(fmt::format("{} dropped because the chosen reply equals the rejected one; the first: {}",
                                         counted(same_, "pair was", "pairs were"), first_same_));
    if (facts_.too_long > 0)
      facts_.notes.push_back(
          fmt::format("{} samples were dropped because they exceeded the length limit or had nothing left to learn",
                      facts_.too_long));
    if (merged_ > 0)
      facts_.notes.push_back(fmt::format(
          "in {} of {}, the end of the prompt and the beginning of the reply are one token; it is learned, but after "
          "the prompt alone the model reads other tokens. Let prompts end without a space, and replies begin with one; "
          "the first: {}",
          merged_, counted(facts_.samples, "sample", "samples"), first_merged_));
    if (facts_.too_short > 0)
      facts_.notes.push_back(
          fmt::format("{} samples with fewer than data.min_length tokens were dropped", facts_.too_short));
    writer_.finish(facts_);
  }

  const PrepareRequest& request_;
  SampleMaker maker_;
  TokenCacheWriter writer_;
  Grouper grouper_;
  CacheFacts facts_;
  ReadSummary summary_;
  std::map<std::string, int32_t> label_numbers_;
  size_t source_ = 0;
  int64_t skipped_ = 0, sources_cut_ = 0, targets_cut_ = 0;
  std::string first_skipped_, first_same_, first_merged_;
  int64_t same_ = 0;    // pairs of equal replies
  int64_t merged_ = 0;  // samples with MadeSample::merged
  double part_ = 0;     // the fraction of the files that was read
};

}  // namespace

void make_store(const PrepareRequest& request, const Tokenizer& tokenizer, const std::filesystem::path& folder) {
  StoreMaker(request, tokenizer, folder).run();
}

}  // namespace trainer::data
