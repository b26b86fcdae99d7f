// MNIST images in memory.
#pragma once

#include <memory>

#include "data/readers/mnist.h"
#include "data/samples/datasets.h"

namespace trainer::data {

class ImageSamples : public Samples {
 public:
  ImageSamples(std::shared_ptr<const Images> images, std::vector<int64_t> numbers)
      : images_(std::move(images)), numbers_(std::move(numbers)) {}

  int64_t size() const override { return static_cast<int64_t>(numbers_.size()); }
  void read(int64_t index, Sample& sample) const override;
  /// One row with one label: an image has no tokens.
  Lengths lengths(int64_t) const override { return {1, 1, 1}; }
  int64_t features() const override { return images_->features; }
  LabelKind label_kind() const override { return LabelKind::kClass; }
  SampleText text(int64_t index) const override;

 private:
  std::shared_ptr<const Images> images_;
  std::vector<int64_t> numbers_;
};

/// Opens the images of `data.train.path`; validation takes a fraction of them or those of `data.validation.path`.
Datasets open_images(const config::DataConfig& config, int64_t seed);

}  // namespace trainer::data
