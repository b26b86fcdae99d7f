// What a run learns from: samples by number, wherever they lie.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace trainer::data {

/// One sample as a model is given it (models/model.h says what labels are); -100 is not learnt.
struct Sample {
  std::vector<int32_t> source, labels;
  std::vector<int64_t> parts;       // where documents begin that do not see each other; empty: it is one
  std::span<const uint8_t> pixels;  // images, instead of `source`
};

/// How long a sample is, in tokens.
struct Lengths {
  int64_t source = 0, labels = 0;
  int64_t learnt = 0;  // labels that are not -100
};

/// What labels are: a target's tokens, what follows each token of the source, or a class.
enum class LabelKind { kTarget, kNext, kClass };

/// A sample before it was tokens.
struct SampleText {
  std::string source, target;
};

/// Samples that can be read in any order, from several threads.
class Samples {
 public:
  virtual ~Samples() = default;

  virtual int64_t size() const = 0;
  bool empty() const { return size() == 0; }

  /// Sample `index`, 0 <= index < size.
  virtual void read(int64_t index, Sample& sample) const = 0;
  /// Its lengths. Corpora have to read the sample to know which labels are learnt.
  virtual Lengths lengths(int64_t index) const = 0;
  /// Tokens of its source, without reading it.
  virtual int64_t source_length(int64_t index) const { return lengths(index).source; }
  /// Its text; empty where it wasn't kept.
  virtual SampleText text(int64_t) const { return {}; }

  /// How many samples come from each `path` of the configuration, one after the other; their sum is size().
  virtual std::vector<int64_t> sources() const { return {size()}; }
  /// Numbers of an image; 0 for texts.
  virtual int64_t features() const { return 0; }
  virtual LabelKind label_kind() const { return LabelKind::kTarget; }
  /// Tokens that the model reads of sample `index`.
  int64_t tokens(int64_t index) const {
    if (label_kind() != LabelKind::kTarget) return source_length(index);
    const Lengths l = lengths(index);
    return l.source + l.labels;
  }
  /// Whether they already stand in the order to be learnt in.
  virtual bool ordered() const { return false; }
  /// Samples of which something was cut off.
  virtual int64_t cut() const { return 0; }
};

/// None at all.
class NoSamples : public Samples {
 public:
  int64_t size() const override { return 0; }
  void read(int64_t, Sample&) const override {}
  Lengths lengths(int64_t) const override { return {}; }
};

/// All tokens that a model reads in one pass over `samples`.
int64_t token_count(const Samples& samples);

}  // namespace trainer::data
