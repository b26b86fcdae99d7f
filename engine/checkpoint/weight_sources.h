// Where a run's weights start.
#pragma once

#include <memory>
#include <string>

#include "engine/parallel/weight_source.h"
#include "engine/tensorfile/tensor_folder.h"
#include "models/model.h"

namespace trainer::checkpoint {

/// Weights drawn from the run's seed.
class SeedSource : public parallel::WeightSource {
 public:
  explicit SeedSource(uint64_t seed) : seed_(seed) {}
  at::ScalarType dtype(const nn::Parameter&) const override { return at::kFloat; }
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

 private:
  uint64_t seed_;
};

/// Weights of a Hugging Face model folder, by name or by an alias.
class FolderSource : public parallel::WeightSource {
 public:
  explicit FolderSource(const std::string& folder) : folder_(folder) {}
  at::ScalarType dtype(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

  /// Whether the folder holds every weight of `model` (adapters aside) in its shape.
  /// Errors: InputError that names the first differences.
  void check(models::Model& model) const;
  /// True when the folder has both weights and their values differ: the head is not tied to the embedding.
  bool differ(const std::string& one, const std::string& other) const;

 private:
  /// The name the folder knows the weight by, or "".
  std::string find(const nn::Parameter& parameter) const;

  tensorfile::TensorFolder folder_;
};

/// The weights of an adapter folder (PEFT's names) over those of `base`.
class AdapterSource : public parallel::WeightSource {
 public:
  AdapterSource(const std::string& folder, const parallel::WeightSource& base);
  at::ScalarType dtype(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

  /// Errors: InputError when a trained weight of `model` is not in the folder, has another shape there, or the folder
  /// has tensors that no layer of the model takes.
  void check(models::Model& model) const;

 private:
  bool has(const nn::Parameter& parameter) const;

  tensorfile::SafetensorsFile file_;
  const parallel::WeightSource& base_;
};

/// Adapters from the seed, all other weights from `base`.
class SeededAdapterSource : public parallel::WeightSource {
 public:
  SeededAdapterSource(uint64_t seed, const parallel::WeightSource& base) : seeded_(seed), base_(base) {}
  at::ScalarType dtype(const nn::Parameter& p) const override { return of(p).dtype(p); }
  void read(const nn::Parameter& p, int64_t begin, int64_t end, const at::Tensor& out) const override {
    of(p).read(p, begin, end, out);
  }

 private:
  const parallel::WeightSource& of(const nn::Parameter& parameter) const;

  SeedSource seeded_;
  const parallel::WeightSource& base_;
};

/// Whether a parameter belongs to an adapter, by its name.
bool is_adapter(const std::string& parameter_name);

}  // namespace trainer::checkpoint
