// main() of test programs: that of GoogleTest, but for the end.
#include <gtest/gtest.h>

#include "engine/base/process_end.h"

int main(int argc, char** argv) {
  trainer::end_without_destroying_globals();
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
