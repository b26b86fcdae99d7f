// The keys in tests/checkpoint/keys, made by openssl and ssh-keygen.
#pragma once

#include <filesystem>
#include <string>

#include "engine/checkpoint/signing_key.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {

inline std::filesystem::path key_file(const std::string& name) {
  return std::filesystem::path(source_dir()) / "tests/checkpoint/keys" / name;
}

/// From a copy that only this user can read: git keeps no such mode.
inline checkpoint::SigningKey signing_key(const std::string& name) {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder.path() / name;
  std::filesystem::copy_file(key_file(name), file);
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  return {file, checkpoint::kSignOption};
}

}  // namespace trainer::testing
