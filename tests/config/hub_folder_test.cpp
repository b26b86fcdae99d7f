#include "engine/config/machine/hub_folder.h"

#include <cstdlib>
#include <fstream>

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace trainer::config {
namespace {

namespace fs = std::filesystem;

struct HubFolder : ::testing::Test {
  testing::TemporaryFolder home;

  HubFolder() { setenv("HF_HUB_CACHE", home.path().c_str(), 1); }
  ~HubFolder() override { unsetenv("HF_HUB_CACHE"); }

  void add(const std::string& model, const std::string& commit) const {
    fs::create_directories(home.path() / model / "snapshots" / commit);
    fs::create_directories(home.path() / model / "refs");
    std::ofstream(home.path() / model / "refs" / "main") << commit;
  }
};

TEST_F(HubFolder, IsTheSnapshotThatMainNames) {
  add("models--meta-llama--Llama-3", "abc123");
  fs::create_directories(home.path() / "models--meta-llama--Llama-3" / "snapshots" / "older");
  EXPECT_EQ(hub_folder("meta-llama/Llama-3"), home.path() / "models--meta-llama--Llama-3" / "snapshots" / "abc123");
  add("models--gpt2", "f00");
  EXPECT_EQ(hub_folder("gpt2"), home.path() / "models--gpt2" / "snapshots" / "f00");
}

TEST_F(HubFolder, IsEmptyIfNotCachedOrNotAName) {
  add("models--a--b", "1");
  fs::remove_all(home.path() / "models--a--b" / "snapshots");
  for (const char* name : {"a/b", "a/c", "", "/a/b", "./a", "../a", "a/b/c", "a b", "a/"})
    EXPECT_EQ(hub_folder(name), "") << name;
}

TEST_F(HubFolder, ATildeIsTheHomeFolder) {
  const char* const before = std::getenv("HOME");
  const std::string old_home = before != nullptr ? before : "";
  setenv("HOME", "/home/me", 1);
  unsetenv("HF_HUB_CACHE");
  setenv("HF_HOME", "~/hf", 1);
  EXPECT_EQ(hub_cache(), fs::path("/home/me/hf/hub"));
  unsetenv("HF_HOME");
  setenv("HF_HUB_CACHE", "~other/hub", 1);
  EXPECT_EQ(hub_cache(), fs::path("~other/hub/"));
  setenv("HOME", old_home.c_str(), 1);
}

TEST_F(HubFolder, OfADatasetIsAnotherFolder) {
  add("models--a--b", "1");
  EXPECT_EQ(hub_folder("a/b", HubKind::kDataset), "");
  add("datasets--a--b", "2");
  EXPECT_EQ(hub_folder("a/b", HubKind::kDataset), home.path() / "datasets--a--b" / "snapshots" / "2");
  EXPECT_NE(hub_hint("/nowhere/a/b", HubKind::kDataset).find("hf download --repo-type dataset a/b"), std::string::npos);
}

TEST_F(HubFolder, HintNamesWhatToDownload) {
  const std::string hint = hub_hint("/nowhere/google/flan-t5-base");
  EXPECT_NE(hint.find("hf download google/flan-t5-base"), std::string::npos) << hint;
  EXPECT_NE(hint.find(home.path().string()), std::string::npos) << hint;
}

}  // namespace
}  // namespace trainer::config
