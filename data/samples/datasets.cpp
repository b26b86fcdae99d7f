#include "data/samples/datasets.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "data/readers/dataset_folder.h"
#include "data/sampler/sample_order.h"
#include "data/samples/image_samples.h"
#include "data/samples/labels.h"
#include "data/samples/megatron_samples.h"
#include "data/samples/token_samples.h"
#include "engine/base/errors.h"
#include "engine/base/listed.h"

namespace trainer::data {
namespace {

constexpr uint64_t kSplitPurpose = 2;

using Stores = std::vector<std::shared_ptr<const TokenCache>>;

std::vector<int64_t> all_of(const TokenCache& store) {
  std::vector<int64_t> numbers(static_cast<size_t>(store.size()));
  for (int64_t i = 0; i < store.size(); ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

/// The samples of a token cache, split by record.
struct Division {
  std::vector<int64_t> train, validation;
};

Division divide(const TokenCache& store, int64_t seed, double fraction) {
  if (fraction <= 0) return {all_of(store), {}};
  Division division;
  const int64_t records = store.facts().records;
  for (int64_t i = 0; i < store.size(); ++i)
    (is_validation(seed, store.record(i), records, fraction) ? division.validation : division.train).push_back(i);
  return division;
}

/// A dataset's folder stands for its validation split.
std::vector<std::string> validation_paths(const std::string& path) {
  return dataset_files(path, "validation").value_or(std::vector<std::string>{path});
}

Datasets open_tokens(const DatasetsRequest& request, const Tokenizer& tokenizer) {
  const config::DataConfig& c = request.config;
  const bool own_file = !c.validation.path.empty();
  const double fraction = own_file ? 0.0 : c.validation.fraction;
  const bool random = c.max_samples > 0 && c.max_samples_choice == config::RecordChoice::kRandom;
  Stores stores{prepare({.config = c,
                         .source = c.train,
                         .keep_texts = fraction > 0,
                         .max_records = c.max_samples,
                         .seed = random ? std::optional(request.seed) : std::nullopt,
                         .progress = request.progress},
                        tokenizer)};
  if (own_file) {
    config::DataSource source = c.train;
    source.path = validation_paths(c.validation.path);
    source.weights.clear();
    stores.push_back(
        prepare({.config = c, .source = source, .keep_texts = true, .progress = request.progress}, tokenizer));
  }
  Datasets datasets;
  const bool classes = c.task == config::Task::kSequenceClassification;
  const std::vector<std::string>& declared = stores[0]->facts().class_names;
  std::vector<Labels> labels;  // of each cache
  for (const auto& store : stores) labels.push_back(store->facts().labels);
  if (classes) datasets.labels = choose_labels(c.labels, request.settled_labels, declared, labels, request.label_order);
  for (size_t i = 0; i < stores.size() && classes; ++i) {
    const std::vector<std::string>& own = stores[i]->facts().class_names;
    labels[i] = named_labels(std::move(labels[i]), own.empty() ? declared : own, datasets.labels);
  }
  const auto samples = [&](size_t cache, std::vector<int64_t> numbers) {
    TokenSamples::Classes of{classes ? class_numbers(datasets.labels, labels[cache]) : std::vector<int32_t>(),
                             datasets.labels};
    return std::make_shared<TokenSamples>(stores[cache], std::move(numbers), c.task, std::move(of),
                                          !c.rejected.empty());
  };
  Division division = divide(*stores[0], request.seed, fraction);
  datasets.train = samples(0, std::move(division.train));
  datasets.validation = own_file ? samples(1, all_of(*stores[1])) : samples(0, std::move(division.validation));
  for (const auto& store : stores)
    for (const std::string& note : store->facts().notes)
      datasets.notes.push_back((store == stores.front() ? "" : "validation: ") + note);
  if (fraction > 0 && datasets.validation->empty())
    datasets.notes.push_back(fmt::format("no sample is held out for validation: data.validation.fraction is {}, of {}",
                                         fraction, counted(stores[0]->facts().records, "record", "records")));
  if (std::string note = classes ? missing_labels(datasets.labels, labels[0]) : ""; !note.empty())
    datasets.notes.push_back(std::move(note));
  if (datasets.train->empty())
    throw InputError(
        "data: {} gave {}, and none is left to train on.\nCheck data.validation.fraction ({}), "
        "data.{}, data.on_too_long and data.min_length.{}{}",
        counted(stores[0]->facts().records, "record", "records"), counted(stores[0]->size(), "sample", "samples"),
        fraction,
        c.task == config::Task::kSeq2SeqLm ? "max_source_length" : fmt::format("max_length ({})", c.max_length),
        datasets.notes.empty() ? "" : "\n", fmt::join(datasets.notes, "\n"));
  return datasets;
}

}  // namespace

int64_t validation_count(int64_t records, double fraction) {
  return std::llround(fraction * static_cast<double>(records));
}

bool is_validation(int64_t seed, int64_t record, int64_t records, double fraction) {
  if (fraction <= 0) return false;
  Permutation permutation(derive_key(seed, kSplitPurpose), records);
  return permutation(record) < validation_count(records, fraction);
}

Datasets open_datasets(const DatasetsRequest& request, const Tokenizer* tokenizer) {
  if (request.config.train.format == config::DataFormat::kMnist) return open_images(request.config, request.seed);
  require(tokenizer != nullptr, "a tokenizer for texts");
  if (request.config.train.format == config::DataFormat::kMegatron) return open_megatron(request, *tokenizer);
  return open_tokens(request, *tokenizer);
}

MajorityClass majority_class(const Samples& samples) {
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < samples.size(); ++i) ++counts[samples.text(i).target];
  if (counts.empty()) return {};
  auto most = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
  return {most->first, static_cast<double>(most->second) / static_cast<double>(samples.size())};
}

}  // namespace trainer::data
