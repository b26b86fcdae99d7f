#include "engine/base/terminal_text.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(Wrapped, BreaksBetweenWords) {
  EXPECT_EQ(wrapped("the loss is far above its mean", 12), "the loss is\nfar above\nits mean");
  EXPECT_EQ(wrapped("short", 12), "short");
  EXPECT_EQ(wrapped("", 12), "");
}

TEST(Wrapped, ContinuesUnderTheLineOrFurtherIn) {
  EXPECT_EQ(wrapped("  one two three\nnext", 10), "  one two\n  three\nnext");
  EXPECT_EQ(wrapped("warning: one two\n", 12, 2), "warning: one\n  two\n");
}

TEST(Wrapped, KeepsLongWordsWholeAndCountsColumns) {
  EXPECT_EQ(wrapped("at /a/very/long/path it", 8), "at\n/a/very/long/path\nit");
  EXPECT_EQ(wrapped("日本 語", 6), "日本\n語") << "each takes two columns";
}

}  // namespace
}  // namespace trainer
