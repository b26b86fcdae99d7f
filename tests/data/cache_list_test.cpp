#include "data/cache/cache_list.h"

#include <gtest/gtest.h>

#include "tests/data/support.h"

namespace trainer::data {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

const fs::file_time_type kNow = fs::file_time_type::clock::now();

CacheEntry entry(const char* name, int64_t bytes, std::chrono::hours unused) {
  return {.name = name, .bytes = bytes, .used = kNow - unused};
}

std::string names_of(const std::vector<CacheEntry>& entries) {
  std::string names;
  for (const CacheEntry& one : entries) names += one.name;
  return names;
}

TEST(CacheList, OldOnesAreBeyondTheAge) {
  const std::vector<CacheEntry> all = {entry("a", 1, 0h), entry("b", 1, 23h), entry("c", 1, 25h)};
  EXPECT_EQ(names_of(beyond(all, {.age = 24h}, kNow)), "c");
  EXPECT_EQ(names_of(beyond(all, {.age = 0h}, kNow)), "bc");  // a may be of a run that is starting
}

TEST(CacheList, TheLeastRecentlyUsedAreBeyondTheSize) {
  const std::vector<CacheEntry> all = {entry("a", 40, 0h), entry("b", 50, 2h), entry("c", 30, 3h), entry("d", 10, 4h)};
  EXPECT_EQ(names_of(beyond(all, {.bytes = 100}, kNow)), "c");
  EXPECT_EQ(names_of(beyond(all, {.bytes = 0}, kNow)), "bcd");
  EXPECT_EQ(names_of(beyond(all, {.bytes = 200}, kNow)), "");
}

TEST(CacheList, OtherFoldersAreNotCaches) {
  const TempFolder folder;
  folder.write("good/about.json", R"({"samples": 3, "tokens": 12})");
  folder.write("good/tokens", "12345678");
  folder.write("good.lock", "");
  folder.write(".half.partial/tokens", "1");
  folder.write("half.lock", "");
  folder.write("notes/about.json", "{}");
  folder.write("no_lock/about.json", "{}");
  folder.write("no_lock/tokens", "");
  std::vector<CacheEntry> all = list_caches(folder.string());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  ASSERT_EQ(names_of(all), ".half.partialgood");
  EXPECT_EQ(all[0].samples, -1);
  EXPECT_EQ(all[1].samples, 3);
  EXPECT_EQ(all[1].bytes, 36);
  for (const CacheEntry& one : all) EXPECT_TRUE(remove_cache(folder.string(), one));
  EXPECT_TRUE(list_caches(folder.string()).empty());
  EXPECT_TRUE(fs::exists(folder / "notes") && fs::exists(folder / "no_lock"));
  EXPECT_TRUE(list_caches(folder / "nowhere").empty());
}

}  // namespace
}  // namespace trainer::data
