#include "engine/launch/folder_sign.h"

#include <cerrno>
#include <filesystem>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/temporary_folder.h"

namespace trainer::launch {
namespace {

TEST(FolderSign, LeavesNothingBehindWhicheverOperationFails) {
  const TemporaryFolder folder("folder-sign");
  int failed = 0;
  for (int64_t operation = 1;; ++operation) {
    file_operations::plan_fault({.save = 1, .operation = operation, .error = ENOSPC});
    file_operations::begin_save(1);
    const file_operations::SaveScope scope;
    try {
      const FolderSign sign(folder.path());
    } catch (const MachineError&) {
      ++failed;
    }
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << "operation " << operation;
    if (operation > file_operations::operations()) break;
  }
  file_operations::plan_fault({});
  EXPECT_GE(failed, 4);  // creating, writing, syncing, renaming it, and syncing the folder
}

}  // namespace
}  // namespace trainer::launch
