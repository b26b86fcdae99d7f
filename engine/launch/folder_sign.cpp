#include "engine/launch/folder_sign.h"

#include <chrono>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/hex.h"
#include "engine/launch/secret.h"

namespace trainer::launch {

namespace fs = std::filesystem;

FolderSign::FolderSign(const fs::path& folder) : folder_(folder), content_(random_bytes(16)) {
  name_ = ".machines-" + hex(content_.substr(0, 4));
  try {
    publish_file(folder_ / name_, content_);
  } catch (const MachineError&) {  // it may be there: what failed can be the sync of the folder
    remove();
    throw;
  }
}

FolderSign::~FolderSign() {
  remove();
}

void FolderSign::remove() {
  std::error_code ignored;  // it may be gone with its folder
  fs::remove(folder_ / name_, ignored);
}

std::string why_unseen(const fs::path& folder, const std::string& name, const std::string& content) {
  constexpr int kTries = 10;
  std::string why;
  if (name.find('/') != std::string::npos) return "it broke the protocol";
  for (int i = 0; i < kTries; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    try {
      if (read_file(folder / name, 4096) == content) return "";
      why = "the file has other content";
    } catch (const InputError& error) {
      why = error.what();
    }
  }
  return why;
}

}  // namespace trainer::launch
