#include "engine/base/uncaught.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <ios>
#include <new>
#include <system_error>

#include <gtest/gtest.h>

#include "engine/base/file_descriptor.h"

namespace trainer {
namespace {

TEST(Uncaught, HasTheCodeAndTextOfOurErrors) {
  const Uncaught found = describe_uncaught(ConfigError("a is {}", 1));
  EXPECT_EQ(found.code, kUsageFailure);
  EXPECT_EQ(found.text, "a is 1");
}

TEST(Uncaught, IsBrokenBetweenWordsOnATerminal) {
  const FileDescriptor screen(posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK));
  ASSERT_TRUE(screen && grantpt(screen.get()) == 0 && unlockpt(screen.get()) == 0);
  const FileDescriptor terminal(open(ptsname(screen.get()), O_RDWR | O_NOCTTY));
  ASSERT_TRUE(terminal);
  const winsize size{.ws_row = 24, .ws_col = 20, .ws_xpixel = 0, .ws_ypixel = 0};
  ASSERT_EQ(ioctl(terminal.get(), TIOCSWINSZ, &size), 0);
  EXPECT_EQ(end_uncaught(ConfigError("a message that is longer than a line"), terminal.get()), kUsageFailure);
  std::string shown(200, '\0');
  shown.resize(static_cast<size_t>(std::max<ssize_t>(read(screen.get(), shown.data(), shown.size()), 0)));
  EXPECT_EQ(shown, "a message that is\r\n  longer than a line\r\n");
}

TEST(Uncaught, MemoryThatCannotBeHadIsUpToTheMachine) {
  for (const Uncaught& found : {describe_uncaught(std::bad_alloc()),
                                describe_uncaught(std::runtime_error("[enforce fail at alloc_cpu.cpp:127] err == 0. "
                                                                     "DefaultCPUAllocator: can't allocate memory: you "
                                                                     "tried to allocate 4000000000000 bytes."))}) {
    EXPECT_EQ(found.code, kMachineFailure);
    EXPECT_EQ(found.text.find("out of memory"), 0U) << found.text;
    EXPECT_NE(found.text.find("raise the limit"), std::string::npos);
  }
}

TEST(Uncaught, AFileSystemThatRefusesIsUpToTheMachine) {
  const Uncaught found = describe_uncaught(
      std::filesystem::filesystem_error("status", "/a/b", std::make_error_code(std::errc::permission_denied)));
  EXPECT_EQ(found.code, kMachineFailure);
  EXPECT_EQ(found.text.find("cannot access /a/b: Permission denied"), 0U) << found.text;
}

TEST(Uncaught, AThreadThatCannotStartIsUpToTheMachine) {
  const Uncaught found =
      describe_uncaught(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_EQ(found.code, kMachineFailure);
  EXPECT_NE(found.text.find("ulimit -u"), std::string::npos) << found.text;
}

TEST(Uncaught, EverythingElseIsABug) {
  for (const Uncaught& found :
       {describe_uncaught(std::out_of_range("map::at")), describe_uncaught(InternalError("map::at")),
        describe_uncaught(std::ios_base::failure("map::at")),  // a system_error too, but not the system's
        describe_uncaught(std::system_error(std::make_error_code(std::errc::operation_not_permitted), "map::at"))}) {
    EXPECT_EQ(found.code, kInternalFailure);
    EXPECT_NE(found.text.find("map::at"), std::string::npos) << found.text;
    EXPECT_NE(found.text.find("\nThis is a bug in trainer"), std::string::npos) << found.text;
  }
}

}  // namespace
}  // namespace trainer
