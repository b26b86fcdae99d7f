#include "engine/train/publish_model.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>

#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/base/file_operations.h"
#include "engine/base/files.h"
#include "tests/support/temporary_folder.h"

namespace trainer::train {
namespace {

namespace fs = std::filesystem;

class PublishModel : public ::testing::Test {
 protected:
  /// Runs `work` as a save of its own in a child, which is killed at an operation, or sees it fail with `error`.
  /// Returns how many operations there were, or minus the signal.
  static int interrupted(const std::function<void()>& work, int operation, int error = 0) {
    const pid_t child = fork();
    if (child == 0) {
      file_operations::plan_fault({.operation = operation, .error = error});
      file_operations::begin_save(1);
      try {
        const file_operations::SaveScope scope;
        work();
      } catch (const MachineError&) {
      }
      _exit(static_cast<int>(file_operations::operations()));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

  void publish(const std::string& what) const {
    const fs::path growing = folder_.path() / ".weights.partial";
    std::ofstream(growing) << what;
    publish_model(growing, folder_.path() / "weights", {{"tokenizer", what}, {"config", what}});
  }

  std::string content(const char* name) const {
    const fs::path file = folder_.path() / name;
    return fs::exists(file) ? read_file(file) : "none";
  }

  /// Whether the weights are those of the configuration and the tokenizer beside them, or missing.
  bool is_consistent() const {
    const std::string weights = content("weights");
    return weights == "none" || (weights == content("config") && weights == content("tokenizer"));
  }

  const testing::TemporaryFolder folder_;
};

TEST_F(PublishModel, AnInterruptionLeavesNoWeightsBesideTheFilesOfOthers) {
  for (const int error : {0, EIO, ENOSPC}) {
    publish("old");
    const int operations = interrupted([&] { publish("new"); }, 0);
    ASSERT_GT(operations, 8);
    int without = 0;
    for (int operation = 1; operation <= operations; ++operation) {
      publish("old");
      const int end = interrupted([&] { publish("new"); }, operation, error);
      EXPECT_EQ(end < 0, error == 0) << end;
      EXPECT_TRUE(is_consistent()) << "operation " << operation << ", errno " << error << ": weights "
                                   << content("weights") << ", config " << content("config");
      without += content("weights") == "none" ? 1 : 0;
    }
    EXPECT_GT(without, 0);  // the old ones are removed before the configuration changes
  }
}

TEST_F(PublishModel, WeightsAloneAreReplacedInOneStep) {
  publish("old");
  const auto replace = [&] {
    const fs::path growing = folder_.path() / ".weights.partial";
    std::ofstream(growing) << "new";
    publish_model(growing, folder_.path() / "weights", {{"config", "old"}});
  };
  const int operations = interrupted(replace, 0);
  for (int operation = 1; operation <= operations; ++operation) {
    publish("old");
    interrupted(replace, operation);
    EXPECT_NE(content("weights"), "none") << operation;
  }
}

}  // namespace
}  // namespace trainer::train
