// Weights from a folder in Megatron's layout.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "engine/tensorfile/safetensors_file.h"
#include "engine/weights/megatron_layout.h"
#include "engine/weights/weight_sources.h"
#include "models/model.h"

namespace trainer::checkpoint {

// Note [Megatron's folders]
// `latest_checkpointed_iteration.txt` names the newest iteration, N or "release". Its weights are in
// `iter_N/mp_rank_TT/` ("release/…"), or `mp_rank_TT_PPP/` with pipeline parallelism: TT is the tensor-parallel rank,
// PPP the stage. Megatron writes pickles there, which trainer neither reads nor writes; in trainer's folders, and in
// those whose pickles were converted, the tensors are in `model.safetensors`. Hugging Face's config.json next to the
// first file describes the model.

inline constexpr const char* kMegatronTracker = "latest_checkpointed_iteration.txt";
inline constexpr const char* kMegatronFile = "model.safetensors";
/// Metadata keys with the parallel sizes, in files that trainer wrote.
inline constexpr const char* kMegatronTensor = "tensor_model_parallel_size";
inline constexpr const char* kMegatronPipeline = "pipeline_model_parallel_size";

/// Whether a folder is a Megatron folder, of any format.
bool is_megatron(const std::filesystem::path& folder);
/// "mp_rank_01", "mp_rank_01_000".
std::string megatron_rank_folder(int64_t rank, int64_t stage, bool pipeline);

/// The weights of a model of LLaMA's architecture, partitioned among any number of ranks and stages, without the
/// padding of the vocabulary.
class MegatronSource : public parallel::WeightSource {
 public:
  /// Errors: InputError when files are missing, pickled, or of another model; ConfigError when the model is of another
  /// architecture.
  MegatronSource(const std::filesystem::path& folder, models::Model& model, uint64_t seed);

  nn::Storage storage(const nn::Parameter& parameter) const override;
  void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const override;

  /// The names of weights that Megatron doesn't have and that may be initialized from the seed. Errors: InputError that
  /// names the first files whose tensors are missing or have other shapes than the model's, with both shapes.
  std::vector<std::string> check(models::Model& model) const;

 private:
  const tensorfile::SafetensorsFile& file(int64_t rank, int64_t stage) const {
    return *files_.at(static_cast<size_t>(stage * layout_->tensor() + rank));
  }
  /// The tensor's name in `file`; "" when it is missing.
  static std::string name_in(const tensorfile::SafetensorsFile& file, const MegatronPlace& place);
  void open(const std::filesystem::path& iteration);
  void lay_out(const models::llama::Config& config);
  std::optional<MegatronPlace> place_of(const nn::Parameter& parameter) const;
  void check_tied(models::Model& model) const;

  std::filesystem::path folder_;
  MegatronDegrees degrees_;
  std::vector<std::unique_ptr<tensorfile::SafetensorsFile>> files_;  // stage by stage
  std::optional<MegatronLayout> layout_;
  SeedSource seed_source_;
};

}  // namespace trainer::checkpoint
