#include "data/samples/image_samples.h"

#include <algorithm>

#include "data/sampler/random_subset.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

std::shared_ptr<const Images> read_images(const std::string& path, MnistPart part) {
  return std::make_shared<Images>(read_mnist(path, part));
}

std::vector<int64_t> numbers_below(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) numbers[static_cast<size_t>(i)] = i;
  return numbers;
}

/// The images that data.max_samples leaves, ascending.
std::vector<int64_t> used_images(const config::DataConfig& config, int64_t count, int64_t seed) {
  if (config.max_samples == 0 || config.max_samples >= count) return numbers_below(count);
  if (config.max_samples_choice == config::RecordChoice::kFirst) return numbers_below(config.max_samples);
  const RandomSubset subset(seed, count, config.max_samples);
  std::vector<int64_t> numbers;
  for (const int64_t number : numbers_below(count))
    if (subset.has(number)) numbers.push_back(number);
  return numbers;
}

std::vector<std::string> digit_names(const Images& images) {
  const int32_t largest = images.labels.empty() ? 0 : *std::max_element(images.labels.begin(), images.labels.end());
  std::vector<std::string> names;
  for (int32_t i = 0; i <= std::max(largest, 9); ++i) names.push_back(std::to_string(i));
  return names;
}

}  // namespace

void ImageSamples::read(int64_t index, Sample& sample) const {
  require(index >= 0 && index < size(), "image {} of {}", index, size());
  const auto number = static_cast<size_t>(numbers_[static_cast<size_t>(index)]);
  const auto features = static_cast<size_t>(images_->features);
  sample.source.clear();
  sample.parts.clear();
  sample.labels = {images_->labels[number]};
  sample.pixels = std::span(images_->pixels).subspan(number * features, features);
}

SampleText ImageSamples::text(int64_t index) const {
  const int64_t number = numbers_.at(static_cast<size_t>(index));
  return {fmt::format("image {}", number), std::to_string(images_->labels[static_cast<size_t>(number)])};
}

Datasets open_images(const config::DataConfig& config, int64_t seed) {
  if (config.train.path.size() != 1)
    throw ConfigError("data.train.path: {} paths given; MNIST takes one folder or one file of images.",
                      config.train.path.size());
  const auto images = read_images(config.train.path[0], MnistPart::kTrain);
  const std::vector<int64_t> used = used_images(config, images->count, seed);
  const auto count = static_cast<int64_t>(used.size());
  const bool own = !config.validation.path.empty();
  std::vector<int64_t> train, validation;
  int64_t at = 0;
  for (const int64_t number : used)
    (!own && is_validation(seed, at++, count, config.validation.fraction) ? validation : train).push_back(number);
  if (train.empty()) throw InputError("{}: no image is left to train on.", config.train.path[0]);
  Datasets datasets;
  datasets.train = std::make_shared<ImageSamples>(images, std::move(train));
  datasets.labels = config.labels.empty() ? digit_names(*images) : config.labels;
  if (own) {
    const auto held_out = read_images(config.validation.path, MnistPart::kTest);
    datasets.validation = std::make_shared<ImageSamples>(held_out, numbers_below(held_out->count));
  } else {
    datasets.validation = std::make_shared<ImageSamples>(images, std::move(validation));
  }
  return datasets;
}

}  // namespace trainer::data
