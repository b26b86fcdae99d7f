// A subset of the samples in a token cache: for training or for validation.
#pragma once

#include <memory>

#include "data/cache/token_cache.h"
#include "engine/config/sections.h"

namespace trainer::data {

class TokenSamples : public Samples {
 public:
  /// For classification: the class of each label in the cache, and the names of the classes.
  struct Classes {
    std::vector<int32_t> numbers;
    std::vector<std::string> names;
  };
  /// `numbers`: indices of the cache's samples, ascending. `pairs`: causal samples that are pairs.
  TokenSamples(std::shared_ptr<const TokenCache> store, std::vector<int64_t> numbers, config::Task task, Classes classes,
               bool pairs = false);

  int64_t size() const override { return static_cast<int64_t>(numbers_.size()); }
  void read(int64_t index, Sample& sample) const override;
  Lengths lengths(int64_t index) const override;
  /// Of a classified sample, the target is the name of its class.
  SampleText text(int64_t index) const override;
  std::vector<int64_t> sources() const override { return sources_; }
  LabelKind label_kind() const override;
  bool are_pairs() const override { return pairs_; }
  int64_t cut() const override { return store_->facts().cut; }

  /// The record that sample `index` was made from, counted from 0 over all files.
  int64_t record(int64_t index) const { return store_->record(number(index)); }

 private:
  int64_t number(int64_t index) const;
  /// Calls f(position) for every learned token except the first of a text, which nothing predicts.
  template <class F>
  void for_each_learned(const CachedSample& stored, const F& f) const;
  int32_t rejected_begin(const CachedSample& stored) const { return pairs_ ? stored.second[0] : 0; }

  std::shared_ptr<const TokenCache> store_;
  std::vector<int64_t> numbers_, sources_;
  config::Task task_;
  Classes classes_;
  bool pairs_;
};

}  // namespace trainer::data
