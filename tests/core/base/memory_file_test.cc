#include "core/base/memory_file.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

namespace weft {
namespace {

TEST(MemoryFile, OtherProcessesReadItWhileItLives) {
  std::optional<MemoryFile> file(std::in_place, "words", "a run file\n");
  const std::string path = file->path();
  const std::string command = "grep -qx 'a run file' " + path;
  EXPECT_EQ(std::system(command.c_str()), 0);
  std::ofstream(path, std::ios::app) << "and more\n";
  std::ifstream in(path);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  EXPECT_EQ(text, "a run file\nand more\n");
  file.reset();
  EXPECT_NE(std::system((command + " 2>/dev/null").c_str()), 0);
}

}  // namespace
}  // namespace weft
