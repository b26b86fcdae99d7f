// The signature of a checkpoint or a model folder: SHA256SUMS, in the format of sha256sum, and its Ed25519 signature in
// SHA256SUMS.sig. Both can be verified without trainer (docs/checkpoints.md).
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/checkpoint/signing_key.h"

namespace trainer::checkpoint {

inline constexpr const char *kSumsFile = "SHA256SUMS", *kSignatureFile = "SHA256SUMS.sig";

/// What is signed.
struct Sums {
  std::string run;                           // run_name()
  int64_t step = -1;                         // -1: the folder isn't a checkpoint
  std::map<std::string, std::string> files;  // SHA-256 in hexadecimal digits, by path in the folder
};

/// The name of the run whose output_dir this is: the folder's own name.
std::string run_name(const std::filesystem::path& output_dir);

/// The SHA-256 of a file, for Sums. Errors: InputError when it can't be read.
std::string sha256_of_file(const std::filesystem::path& path);
std::string sha256_of(std::string_view bytes);

/// The names and contents of SHA256SUMS and SHA256SUMS.sig.
using SignatureFiles = std::array<std::pair<std::string, std::string>, 2>;
SignatureFiles signature_files(const Sums& sums, const SigningKey& key);

/// Whether `folder` has both files, whoever made them.
bool is_signed(const std::filesystem::path& folder);

/// Removes both files, which belong to an earlier content of the folder. Errors: MachineError.
void remove_signature(const std::filesystem::path& folder);

/// Signs all files of `folder`, which contains nothing else. Errors: MachineError.
void sign_folder(const std::filesystem::path& folder, const std::string& run, const SigningKey& key);

/// What a reader of checkpoints trusts.
struct Trust {
  PublicKey key;
  std::string run;  // "": any
};

/// The trust in the public key `trusted_key`; null: it is "". What a run finds in its own `output_dir` must be its own;
/// without output_dir ("": the user named a checkpoint) it may be of any run. Errors: ConfigError.
std::optional<Trust> trust_in(const std::string& trusted_key, const std::filesystem::path& output_dir);

/// Verifies that the folder of a checkpoint has exactly the files that were signed, for the step that its name says,
/// and that its manifest is the signed one. Together with verify_files(), which compares their bytes with the manifest,
/// this covers every byte. Errors: InputError that names the file.
Sums check_signature(const std::filesystem::path& folder, const Trust& trust);

/// Verifies the signature of a model folder, byte for byte. Files of a run beside its final model are not part of it.
/// Errors: InputError that names the file.
Sums verify_model(const std::filesystem::path& folder, const PublicKey& key);

/// Verifies every byte of a checkpoint or a model folder, and its signature. Errors: as the functions above.
Sums verify_signed(const std::filesystem::path& folder, const PublicKey& key);

/// Whether `folder` holds the weights of a model or an adapter, or a signature.
bool holds_model(const std::filesystem::path& folder);

/// Reads SHA256SUMS, without comparing it with the files. Errors: InputError when `key` hasn't signed it.
Sums read_sums(const std::filesystem::path& folder, const PublicKey& key);

}  // namespace trainer::checkpoint
