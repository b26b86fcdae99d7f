// Samples by index: the interface of all datasets.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

/// One sample as input for a model (models/model.h defines the labels); the loss ignores labels of -100.
struct Sample {
  std::vector<int32_t> source, labels;
  std::vector<int64_t> parts;       // where documents begin; attention never crosses documents; empty: one document
  std::span<const uint8_t> pixels;  // images, instead of `source`
  std::vector<double> reference;    // of a pair: the reference's log-probabilities of both texts; empty: not known
};

/// The lengths of a sample in tokens.
struct Lengths {
  int64_t source = 0, labels = 0;
  int64_t learned = 0;   // labels that are not -100
  int64_t rejected = 0;  // of a pair: tokens of `source` that are the rejected text's
};

/// The kind of labels: the target's tokens, the next token for each token of the source, or a class.
enum class LabelKind { kTarget, kNext, kClass };

/// The text of a sample.
struct SampleText {
  std::string source, target;
};

/// Samples with random access, safe to read from several threads.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual int64_t size() const = 0;
  bool empty() const { return size() == 0; }

  /// Sample `index`, 0 <= index < size.
  virtual void read(int64_t index, Sample& sample) const = 0;
  /// The sample's lengths. Corpora have to read the sample to count the learned labels.
  virtual Lengths lengths(int64_t index) const = 0;
  /// The number of source tokens, without reading the sample.
  virtual int64_t source_length(int64_t index) const { return lengths(index).source; }
  /// The sample's text; empty when it isn't stored.
  virtual SampleText text(int64_t) const { return {}; }

  /// The number of samples from each `path` of the configuration, in order; their sum is size().
  virtual std::vector<int64_t> sources() const { return {size()}; }
  /// The number of values of an image; 0 for texts.
  virtual int64_t features() const { return 0; }
  virtual LabelKind label_kind() const { return LabelKind::kTarget; }
  /// Whether each sample is a pair, two documents: the chosen text, then the rejected one.
  virtual bool are_pairs() const { return false; }
  /// The terms of the loss that sample `index` adds to its sum: its learned labels, or one for a pair.
  int64_t loss_terms(int64_t index) const { return are_pairs() ? 1 : lengths(index).learned; }
  /// The number of tokens that the model reads for sample `index`.
  int64_t tokens(int64_t index) const {
    if (label_kind() != LabelKind::kTarget) return source_length(index);
    const Lengths l = lengths(index);
    return l.source + l.labels;
  }
  /// Whether the samples are already in training order.
  virtual bool ordered() const { return false; }
  /// The number of truncated samples.
  virtual int64_t cut() const { return 0; }
};

/// An empty dataset.
class NoSamples : public Samples {
 public:
  int64_t size() const override { return 0; }
  void read(int64_t, Sample&) const override {}
  Lengths lengths(int64_t) const override { return {}; }
};

/// The number of tokens that a model reads in one pass over `samples`.
int64_t token_count(const Samples& samples);

}  // namespace trainer::data
