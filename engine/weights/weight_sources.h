// Sources of a run's initial weights.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "engine/adapters/inject.h"
#include "engine/parallel/weight_source.h"
#include "engine/tensorfile/tensor_folder.h"
#include "models/model.h"

namespace trainer::checkpoint {

/// Weights initialized from the run's seed.
class SeedSource : public parallel::WeightSource {
 public:
  explicit SeedSource(uint64_t seed) : seed_(seed) {}
  nn::Storage storage(const nn::Parameter&) const override { return at::kFloat; }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

 private:
  uint64_t seed_;
};

/// Missing weights of a known dtype, for counting bytes.
class AbsentSource : public parallel::WeightSource {
 public:
  explicit AbsentSource(at::ScalarType dtype) : dtype_(dtype) {}
  nn::Storage storage(const nn::Parameter&) const override { return dtype_; }
  /// Errors: InternalError.
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

 private:
  at::ScalarType dtype_;
};

/// Weights of a Hugging Face model folder: by name or by an alias, with or without the base model's prefix, and by the
/// names that norms had in TensorFlow. Weights that the folder may lack are initialized from the seed.
class FolderSource : public parallel::WeightSource {
 public:
  /// `base_prefix`: the model's.
  FolderSource(const std::string& folder, std::string base_prefix, uint64_t seed)
      : folder_(folder), base_prefix_(std::move(base_prefix)), seed_source_(seed) {}
  nn::Storage storage(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;
  InPlace in_place(const nn::Parameter& parameter) const override;

  /// Checks that the folder has every weight of `model` (except adapters) in its shape. Returns the names of missing
  /// weights that may be initialized from the seed.
  /// Errors: InputError that names the first differences.
  std::vector<std::string> check(models::Model& model) const;
  /// The names of all weights in the folder, sorted.
  std::vector<std::string> names() const { return folder_.names(); }
  /// Whether the folder has a value for the weight.
  bool has(const nn::Parameter& parameter) const { return !find(parameter).empty(); }
  /// The name in the folder of the model's weight `name`; "": the folder lacks it.
  std::string name_in_folder(const std::string& name) const;
  /// Whether the output head that `model` ties to its embedding has different values in the folder.
  bool head_is_separate(models::Model& model) const;

 private:
  /// The weight's name in the folder, or "".
  std::string find(const nn::Parameter& parameter) const;

  tensorfile::TensorFolder folder_;
  std::string base_prefix_;
  SeedSource seed_source_;
};

/// The weights of an adapter folder (PEFT's names) over those of `base`.
class AdapterSource : public parallel::WeightSource {
 public:
  /// `names`: the parameters' possible names in the folder (adapters::adapter_names).
  AdapterSource(const std::string& folder, const parallel::WeightSource& base,
                std::map<std::string, std::vector<std::string>> names);
  nn::Storage storage(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;
  InPlace in_place(const nn::Parameter& p) const override { return has(p) ? InPlace() : base_.in_place(p); }

  /// Errors: InputError when a trained weight of `model` is missing from the folder or has another shape there, or the
  /// folder has tensors that belong to no layer of the model.
  void check(models::Model& model) const;

 private:
  bool has(const nn::Parameter& parameter) const;
  /// Its name in the file if it is there, else the one that it would have.
  const std::string& name_of(const nn::Parameter& parameter) const;

  tensorfile::SafetensorsFile file_;
  const parallel::WeightSource& base_;
  std::map<std::string, std::vector<std::string>> names_;
};

/// Adapters from the seed, all other weights from `base`.
class SeededAdapterSource : public parallel::WeightSource {
 public:
  SeededAdapterSource(uint64_t seed, const parallel::WeightSource& base) : seeded_(seed), base_(base) {}
  nn::Storage storage(const nn::Parameter& p) const override { return of(p).storage(p); }
  void read(const nn::Parameter& p, int64_t begin, int64_t end, const at::Tensor& out) const override {
    of(p).read(p, begin, end, out);
  }
  InPlace in_place(const nn::Parameter& p) const override { return of(p).in_place(p); }

 private:
  const parallel::WeightSource& of(const nn::Parameter& parameter) const;

  SeedSource seeded_;
  const parallel::WeightSource& base_;
};

/// Adapters derived from other weights; these and all other weights come from `base`.
class DerivedSource : public parallel::WeightSource {
 public:
  DerivedSource(adapters::DerivedWeights starts, const parallel::WeightSource& base)
      : starts_(std::move(starts)), base_(base) {}
  nn::Storage storage(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;
  InPlace in_place(const nn::Parameter& p) const override {
    return starts_.count(p.name) != 0 ? InPlace() : base_.in_place(p);
  }

 private:
  adapters::DerivedWeights starts_;
  const parallel::WeightSource& base_;
};

}  // namespace trainer::checkpoint
