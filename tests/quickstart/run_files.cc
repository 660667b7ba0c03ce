#include "tests/quickstart/run_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>

namespace weft::test {

void write_run_files(RealProcesses& processes) {
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += fmt::format("the {} and the lord of {}\n", i * 7919 % 100, i * 104729 % 30);
  processes.write("text.txt", text);
  std::filesystem::copy_file(std::filesystem::path(WEFT_SOURCE_DIR) / "cluster.yaml",
                             processes.directory() / "cluster.yaml");
}

}  // namespace weft::test
