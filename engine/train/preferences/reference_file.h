#pragma once

#include <filesystem>
#include <map>
#include <string>

#include <ATen/core/Tensor.h>

#include "data/samples/samples.h"

namespace trainer::train {

/// The log-probabilities [pairs, 2] of a set of pairs, and the digest of these.
struct StoredReference {
  std::string digest;
  at::Tensor log_probs;
};
/// By the name of the set: train, validation.
using StoredReferences = std::map<std::string, StoredReference>;

/// In a folder of its own: programs that load a model read every safetensors file beside it.
inline constexpr const char* kReferenceFile = "preferences/reference.safetensors";

/// `output_dir`/kReferenceFile; empty when there is none. Errors: InputError for a file that isn't what was written.
StoredReferences read_reference(const std::filesystem::path& output_dir);
/// Writes it atomically. Errors: MachineError.
void write_reference(const std::filesystem::path& output_dir, const StoredReferences& references);

/// Of the tokens and labels of all pairs.
std::string digest_of(const data::Samples& pairs);

}  // namespace trainer::train
